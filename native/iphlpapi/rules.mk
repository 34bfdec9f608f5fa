# SPDX-License-Identifier: Apache-2.0
# Copyright The mullion Authors.
#
# iphlpapi.dll: its exports come from the Wine in bin/wine.

OWN_RULE += iphlpapi
OURS_iphlpapi := GetIpForwardTable CreateIpForwardEntry DeleteIpForwardEntry SetIpForwardEntry GetIpForwardTable2 \
	GetIpForwardEntry2 CreateIpForwardEntry2 DeleteIpForwardEntry2 SetIpForwardEntry2 InitializeIpForwardEntry \
	GetIpInterfaceTable GetIpInterfaceEntry SetIpInterfaceEntry InitializeIpInterfaceEntry \
	GetAdaptersAddresses GetAdaptersInfo GetIfTable2 GetIfTable2Ex GetIfEntry2 GetIfEntry2Ex \
	ConvertInterfaceLuidToAlias ConvertInterfaceAliasToLuid Icmp6CreateFile Icmp6SendEcho2
LIBS_iphlpapi := -ladvapi32
