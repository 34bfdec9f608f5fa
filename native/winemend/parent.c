// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Who started a container's programs. On Windows it is a service, CExecSvc.exe,
// whose process everyone sees in the container. Wine gives the process that Linux
// started no parent at all, and programs take that for a parent that has ended:
// busybox-w32's sh then does not wait for what it starts (getppid() == 1). Here
// the service manager, which is older and stays, takes the place of the service.

#include "winemend.h"

static BOOL named(const UNICODE_STRING *name, const WCHAR *want)
{
    UNICODE_STRING w;
    RtlInitUnicodeString(&w, want);
    return name->Buffer && RtlEqualUnicodeString(name, &w, TRUE);
}

void give_parents(void *processes)
{
    SYSTEM_PROCESS_INFORMATION *p;
    HANDLE manager = NULL;
    for (p = processes;; p = (void *)((char *)p + p->NextEntryOffset)) {
        if (named(&p->ImageName, L"services.exe")) manager = p->UniqueProcessId;
        if (!p->NextEntryOffset) break;
    }
    for (p = processes; manager; p = (void *)((char *)p + p->NextEntryOffset)) {
        if (p->UniqueProcessId && p->UniqueProcessId != manager && !p->InheritedFromUniqueProcessId)
            p->InheritedFromUniqueProcessId = manager;
        if (!p->NextEntryOffset) break;
    }
}
