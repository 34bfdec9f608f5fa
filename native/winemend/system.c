// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The system call that tells about the machine and all processes.

#include "winemend.h"

static query_system real_NtQuerySystemInformation;

static NTSTATUS NTAPI mend_NtQuerySystemInformation(SYSTEM_INFORMATION_CLASS class, void *out, ULONG len, ULONG *wrote)
{
    NTSTATUS status = real_NtQuerySystemInformation(class, out, len, wrote);
    if (status) return status;
    if (class == SystemBasicInformation) limit_memory(real_NtQuerySystemInformation, out);
    if (class == SystemProcessInformation && identity_known()) give_parents(out);
    return status;
}

BOOL mend_system(void)
{
    real_NtQuerySystemInformation = hook_syscall("NtQuerySystemInformation", (void *)mend_NtQuerySystemInformation);
    return real_NtQuerySystemInformation != NULL;
}
