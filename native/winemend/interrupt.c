// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Ctrl+C while one of cmd.exe's own commands runs, such as dir /s. Windows' cmd.exe checks for it in its loops over
// files and when it prints. Here, the command finds no more files, prints nothing more on the console, and so ends.
//
// The commands that follow in the line are skipped. The first ends the blocks and loops that it is in, by the code that
// Wine's cmd.exe has for goto. Wine's returns any code of a program that it cannot start. So the command's name, whatever
// it is, is not among cmd.exe's own (builtins.c), a program of that name is found, and does not start.

#include "winemend.h"

static HANDLE(WINAPI *real_FindFirstFileW)(const WCHAR *, WIN32_FIND_DATAW *);
static BOOL(WINAPI *real_FindNextFileW)(HANDLE, WIN32_FIND_DATAW *);
static BOOL(WINAPI *real_WriteConsoleW)(HANDLE, const void *, DWORD, DWORD *, void *);
static DWORD(WINAPI *real_GetEnvironmentVariableW)(const WCHAR *, WCHAR *, DWORD);
static DWORD(WINAPI *real_GetFileAttributesW)(const WCHAR *);
static HANDLE(WINAPI *real_GetStdHandle)(DWORD);
static BOOL(WINAPI *real_GetExitCodeProcess)(HANDLE, DWORD *);
static UINT(WINAPI *real_GetTempFileNameW)(const WCHAR *, const WCHAR *, UINT, WCHAR *);
static HANDLE(WINAPI *real_CreateFileW)(const WCHAR *, DWORD, DWORD, SECURITY_ATTRIBUTES *, DWORD, DWORD, HANDLE);
static BOOL(WINAPI *real_CreateProcessW)(const WCHAR *, WCHAR *, SECURITY_ATTRIBUTES *, SECURITY_ATTRIBUTES *, BOOL,
                                         DWORD, void *, const WCHAR *, STARTUPINFOW *, PROCESS_INFORMATION *);
static BOOL(WINAPI *real_ShellExecuteExW)(void *);

// How many commands of pipes run that are not the last one. What they return is not looked at.
static SIZE_T pipes;

BOOL interrupt_skips(const WCHAR *name) { return pipes && same_text(name, L"REM"); }

static UINT WINAPI mend_GetTempFileNameW(const WCHAR *path, const WCHAR *prefix, UINT unique, WCHAR *name)
{
    pipes++;
    return real_GetTempFileNameW(path, prefix, unique, name);
}

static HANDLE WINAPI mend_CreateFileW(const WCHAR *path, DWORD access, DWORD share, SECURITY_ATTRIBUTES *security,
                                      DWORD disposition, DWORD flags, HANDLE template)
{
    // Only the file of a pipe is still written.
    if (access == GENERIC_READ && share == (FILE_SHARE_READ | FILE_SHARE_WRITE) && pipes) pipes--;
    return real_CreateFileW(path, access, share, security, disposition, flags, template);
}

// find_skipped finds name.exe for the pattern name.*, for which cmd.exe looks.
static HANDLE find_skipped(const WCHAR *pattern, WIN32_FIND_DATAW *found)
{
    static const WCHAR extension[] = L".exe";
    SIZE_T begin = 0, n = 0, used = 0;
    for (; pattern[n]; n++)
        if (pattern[n] == '\\') begin = n + 1;
    RtlSetLastWin32Error(ERROR_FILE_NOT_FOUND);
    if (n < begin + 2 || pattern[n - 2] != '.' || pattern[n - 1] != '*') return INVALID_HANDLE_VALUE;
    HANDLE handle = real_FindFirstFileW(L"C:\\Windows", found);
    while (begin < n - 2 && used < ARRAYSIZE(found->cFileName) - ARRAYSIZE(extension))
        found->cFileName[used++] = pattern[begin++];
    memcpy(found->cFileName + used, extension, sizeof(extension));
    found->dwFileAttributes = FILE_ATTRIBUTE_ARCHIVE;
    return handle;
}

static DWORD WINAPI mend_GetFileAttributesW(const WCHAR *path)
{
    return batch_skips() ? INVALID_FILE_ATTRIBUTES : real_GetFileAttributesW(path);
}

static BOOL WINAPI mend_CreateProcessW(const WCHAR *name, WCHAR *line, SECURITY_ATTRIBUTES *process,
                                       SECURITY_ATTRIBUTES *thread, BOOL inherit, DWORD flags, void *environment,
                                       const WCHAR *directory, STARTUPINFOW *startup, PROCESS_INFORMATION *started)
{
    if (batch_ending()) return FALSE;
    return real_CreateProcessW(name, line, process, thread, inherit, flags, environment, directory, startup, started);
}

// cmd.exe calls it for a file that is not a program.
static BOOL WINAPI mend_ShellExecuteExW(void *info)
{
    if (!batch_skips()) return real_ShellExecuteExW(info);
    RtlSetLastWin32Error((DWORD)COMMAND_ABORTED);
    return FALSE;
}

static BOOL WINAPI mend_GetExitCodeProcess(HANDLE process, DWORD *code)
{
    BOOL ok = real_GetExitCodeProcess(process, code);
    if (ok) batch_program_ended(*code);
    return ok;
}

static HANDLE WINAPI mend_FindFirstFileW(const WCHAR *pattern, WIN32_FIND_DATAW *found)
{
    if (batch_skips()) return find_skipped(pattern, found);
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
    BOOL prompt = same_text(name, L"PROMPT") && size == MAX_PATH; // other reads are for %PROMPT%
    if (prompt && batch_stops() && batch_ending()) { // which shows the interrupt
        DWORD wrote; // The empty line before the prompt was not.
        real_WriteConsoleW(real_GetStdHandle(STD_OUTPUT_HANDLE), L"\r\n", 2, &wrote, NULL);
    }
    if (prompt) lines_prompt();
    if (prompt && !batch_running()) pipes = 0;
    if (batch_skips() && same_text(name, L"PATHEXT")) return 0; // cmd.exe has a default
    return real_GetEnvironmentVariableW(name, value, size);
}

void mend_interrupts(HMODULE program)
{
    const struct import functions[] = {
        {"FindFirstFileW", (void *)mend_FindFirstFileW, &real_FindFirstFileW},
        {"FindNextFileW", (void *)mend_FindNextFileW, &real_FindNextFileW},
        {"WriteConsoleW", (void *)mend_WriteConsoleW, &real_WriteConsoleW},
        {"GetEnvironmentVariableW", (void *)mend_GetEnvironmentVariableW, &real_GetEnvironmentVariableW},
        {"GetStdHandle", NULL, &real_GetStdHandle},
        {"GetFileAttributesW", (void *)mend_GetFileAttributesW, &real_GetFileAttributesW},
        {"GetExitCodeProcess", (void *)mend_GetExitCodeProcess, &real_GetExitCodeProcess},
        {"GetTempFileNameW", (void *)mend_GetTempFileNameW, &real_GetTempFileNameW},
        {"CreateFileW", (void *)mend_CreateFileW, &real_CreateFileW},
        {"CreateProcessW", (void *)mend_CreateProcessW, &real_CreateProcessW},
        {"ShellExecuteExW", (void *)mend_ShellExecuteExW, &real_ShellExecuteExW},
    };
    replace_imports(program, functions, ARRAYSIZE(functions));
}
