# SPDX-License-Identifier: Apache-2.0
# Copyright The mullion Authors.
#
# winemend.dll must import ntdll.dll alone: everything else depends on it. gcc
# takes the access to the TEB (gs:0x30) for one to address 0x30 of nothing.

CFLAGS_winemend := -Wno-array-bounds -Wno-cast-function-type
LIBS_winemend := -lntdll
