// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Wine clears 960 KB of a thread's stack before its first instruction
// (dlls/ntdll/signal_x86_64.c, signal_start_thread), so that they are in memory
// for as long as the thread lives: 1 MB for each of the 70 threads of an idle
// host, most of which use a few pages. On Windows a stack costs what was used
// of it. Here one page is cleared.

#include "winemend.h"

BOOL mend_stacks(void)
{
    static const unsigned char all[] = {0x48, 0x8d, 0xb9, 0x00, 0x00, 0xf1, 0xff}; // lea rdi, [rcx-0xf0000]
    static const unsigned char one[] = {0x48, 0x8d, 0xb9, 0x00, 0xf0, 0xff, 0xff}; // lea rdi, [rcx-0x1000]
    // The function has no name that could be asked for; it lies between these.
    unsigned char *at = find_function(L"ntdll.dll", "RtlRaiseException"), *end = find_function(L"ntdll.dll", "DbgBreakPoint");
    for (; at && at + sizeof(all) <= end; at++)
        if (!memcmp(at, all, sizeof(all))) return overwrite_code(at, one, sizeof(one));
    return not_replaced() != NULL;
}
