// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The environment of a container's program. Wine lets the registry override
// what a program's environment says and keeps some names to itself; mullion-init
// therefore gives each variable as MULLION_ENV_NAME=value (internal/wine,
// ContainerProcess), which here becomes NAME=value. Programs that such a program
// starts get its environment as Windows hands it down.

#include "winemend.h"

NTSYSAPI NTSTATUS NTAPI RtlSetEnvironmentVariable(WCHAR **, UNICODE_STRING *, UNICODE_STRING *);

static SIZE_T chars(const WCHAR *s)
{
    SIZE_T n = 0;
    while (s[n]) n++;
    return n;
}

// set makes or, with value NULL, removes a variable of this process.
static void set(WCHAR *name, SIZE_T name_len, WCHAR *value)
{
    if (name_len > 0x7ffe || (value && chars(value) > 0x7ffe)) return; // more does not fit into a UNICODE_STRING
    UNICODE_STRING n = {(USHORT)(name_len * sizeof(WCHAR)), (USHORT)(name_len * sizeof(WCHAR)), name}, v;
    if (value) RtlInitUnicodeString(&v, value);
    RtlSetEnvironmentVariable(NULL, &n, value ? &v : NULL);
}

void set_environment(void)
{
    static const WCHAR prefix[] = L"MULLION_ENV_";
    const SIZE_T head = ARRAYSIZE(prefix) - 1;
    RTL_USER_PROCESS_PARAMETERS *params = NtCurrentTeb()->ProcessEnvironmentBlock->ProcessParameters;
    const WCHAR *block = *(WCHAR **)((char *)params + 0x80); // Environment
    SIZE_T size = 0;
    BOOL any = FALSE;
    while (block && block[size]) {
        SIZE_T n = chars(block + size);
        any |= n > head && !memcmp(block + size, prefix, head * sizeof(WCHAR));
        size += n + 1;
    }
    if (!any) return;
    // A copy, because setting a variable may move the block.
    WCHAR *copy = alloc_mem((size + 1) * sizeof(WCHAR));
    if (!copy) return;
    memcpy(copy, block, size * sizeof(WCHAR));
    for (int pass = 0; pass < 2; pass++) { // first remove all, then set
        for (WCHAR *entry = copy; *entry;) {
            SIZE_T n = chars(entry), name = head;
            WCHAR *next = entry + n + 1;
            if (n > head && !memcmp(entry, prefix, head * sizeof(WCHAR))) {
                while (name < n && (entry[name] != '=' || name == head)) name++;
                if (!pass) set(entry, name, NULL);
                else if (name < n) set(entry + head, name - head, entry + name + 1);
            }
            entry = next;
        }
    }
    free_mem(copy);
}
