// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// How much memory the machine has. Wine asks the kernel (dlls/ntdll/unix/virtual.c,
// virtual_get_system_info: sysinfo(2)), which knows only the whole machine. What
// there is to commit it reads in /proc/meminfo, over which an emulated host has a
// file with its own size.

#include "winemend.h"

// Offsets of the fields; mingw-w64 declares both structures as bytes.
enum {
    PHYSICAL_PAGES = 12, // MmNumberOfPhysicalPages of SYSTEM_BASIC_INFORMATION
    COMMIT_LIMIT = 52,   // TotalCommitLimit of SYSTEM_PERFORMANCE_INFORMATION
};

void limit_memory(query_system query, void *basic)
{
    ULONG64 performance[64]; // the structure has 344 bytes in Windows 10
    ULONG limit, pages, size = 0;
    memset(performance, 0, sizeof(performance));
    // A longer buffer is taken.
    query(SystemPerformanceInformation, performance, sizeof(performance), &size);
    memcpy(&limit, (char *)performance + COMMIT_LIMIT, sizeof(limit));
    memcpy(&pages, (char *)basic + PHYSICAL_PAGES, sizeof(pages));
    // Wine adds a page to the limit, for a game that wants more of it than of memory.
    if (limit > 1 && --limit < pages) memcpy((char *)basic + PHYSICAL_PAGES, &limit, sizeof(limit));
}
