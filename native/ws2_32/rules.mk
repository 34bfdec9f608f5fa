# SPDX-License-Identifier: Apache-2.0
# Copyright The mullion Authors.
#
# ws2_32.dll: its exports come from the Wine in bin/wine.

OWN_RULE += ws2_32
OURS_ws2_32 := WSASocketW socket bind connect getsockname getpeername accept closesocket WSAIoctl getaddrinfo \
	GetAddrInfoW GetAddrInfoExW gethostbyname
