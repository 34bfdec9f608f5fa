// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The program that a process runs.

#include "winemend.h"

BOOL is_image(const WCHAR *name)
{
    const UNICODE_STRING *image = &NtCurrentTeb()->ProcessEnvironmentBlock->ProcessParameters->ImagePathName;
    USHORT n = image->Length / sizeof(WCHAR), m = 0;
    while (name[m]) m++;
    if (n < m) return FALSE;
    for (USHORT i = 0; i < m; i++) {
        WCHAR c = image->Buffer[n - m + i];
        if (c >= 'A' && c <= 'Z') c += 32;
        if (c != name[i]) return FALSE;
    }
    return TRUE;
}
