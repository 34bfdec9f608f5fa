// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Ctrl+C while one of cmd.exe's own commands runs, such as dir /s. Windows' cmd.exe checks for it in its loops over
// files and when it prints. Here, the command finds no more files, prints nothing more on the console, and so ends.

#include "winemend.h"

static HANDLE(WINAPI *real_FindFirstFileW)(const WCHAR *, WIN32_FIND_DATAW *);
static BOOL(WINAPI *real_FindNextFileW)(HANDLE, WIN32_FIND_DATAW *);
static BOOL(WINAPI *real_WriteConsoleW)(HANDLE, const void *, DWORD, DWORD *, void *);
static DWORD(WINAPI *real_GetEnvironmentVariableW)(const WCHAR *, WCHAR *, DWORD);

static HANDLE WINAPI mend_FindFirstFileW(const WCHAR *pattern, WIN32_FIND_DATAW *found)
{
    if (!batch_stops()) return real_FindFirstFileW(pattern, found);
    RtlSetLastWin32Error(ERROR_FILE_NOT_FOUND);
    return INVALID_HANDLE_VALUE;
}

static BOOL WINAPI mend_FindNextFileW(HANDLE search, WIN32_FIND_DATAW *found)
{
    if (!batch_stops()) return real_FindNextFileW(search, found);
    RtlSetLastWin32Error(ERROR_NO_MORE_FILES);
    return FALSE;
}

static BOOL WINAPI mend_WriteConsoleW(HANDLE console, const void *text, DWORD n, DWORD *wrote, void *reserved)
{
    if (!batch_stops()) return real_WriteConsoleW(console, text, n, wrote, reserved);
    if (wrote) *wrote = n;
    return TRUE;
}

// cmd.exe reads PROMPT before it prints a prompt, which is after the command has ended.
static DWORD WINAPI mend_GetEnvironmentVariableW(const WCHAR *name, WCHAR *value, DWORD size)
{
    if (name && same_text(name, L"PROMPT")) batch_ending(); // shows the interrupt
    return real_GetEnvironmentVariableW(name, value, size);
}

void mend_interrupts(HMODULE program)
{
    const struct import functions[] = {
        {"FindFirstFileW", (void *)mend_FindFirstFileW, &real_FindFirstFileW},
        {"FindNextFileW", (void *)mend_FindNextFileW, &real_FindNextFileW},
        {"WriteConsoleW", (void *)mend_WriteConsoleW, &real_WriteConsoleW},
        {"GetEnvironmentVariableW", (void *)mend_GetEnvironmentVariableW, &real_GetEnvironmentVariableW},
    };
    replace_imports(program, functions, ARRAYSIZE(functions));
}
