// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The library of crash.exe. Its DllMain crashes or fails if the command line says so.

#include <string.h>
#include <windows.h>

static char *volatile nowhere;

BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void *reserved)
{
    (void)module;
    (void)reserved;
    const char *line = GetCommandLineA();
    if (reason != DLL_PROCESS_ATTACH) return TRUE;
    if (strstr(line, "attach-null")) *nowhere = 1;
    if (strstr(line, "attach-raise")) RaiseException(0xE0000001, 0, 0, NULL);
    if (strstr(line, "attach-fail-fast")) __asm__ volatile("int $0x29" ::"c"(7));
    return !strstr(line, "attach-false");
}

__declspec(dllexport) int NUMBER(void) { return 5; }
