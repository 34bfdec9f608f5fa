// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// What cmd.exe calls, replaced in its own table of imports, so that no other module
// is concerned.

#include "winemend.h"

BOOL same_text(const WCHAR *a, const WCHAR *b)
{
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

static BOOL same(const char *a, const char *b)
{
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

void replace_imports(HMODULE program, const struct import *functions, SIZE_T count)
{
    char *base = (char *)program;
    const IMAGE_NT_HEADERS64 *header = (void *)(base + ((IMAGE_DOS_HEADER *)base)->e_lfanew);
    const IMAGE_IMPORT_DESCRIPTOR *from =
        (void *)(base + header->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_IMPORT].VirtualAddress);
    for (; from->Name; from++) {
        const IMAGE_THUNK_DATA64 *entry = (void *)(base + from->OriginalFirstThunk);
        ULONG_PTR *slot = (void *)(base + from->FirstThunk);
        for (; entry->u1.AddressOfData; entry++, slot++) {
            if (IMAGE_SNAP_BY_ORDINAL64(entry->u1.Ordinal)) continue;
            const char *name = (const char *)((IMAGE_IMPORT_BY_NAME *)(base + entry->u1.AddressOfData))->Name;
            for (SIZE_T i = 0; i < count; i++) {
                if (!same(name, functions[i].name)) continue;
                memcpy(functions[i].real, slot, sizeof(*slot));
                if (functions[i].replacement) overwrite_code(slot, &functions[i].replacement, sizeof(*slot));
            }
        }
    }
}
