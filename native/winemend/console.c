// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Consoles. Their host is this project's cmd/conhost; this file has the parts
// that must run inside the program:
//
//   - ReadConsoleW and ReadConsoleA, which must report that Ctrl+C interrupted a read;
//   - Ctrl+C and Ctrl+Break in an interactive cmd.exe, which then prompts
//     again. Wine's cmd.exe has no handler for them, and exits;
//   - Tab in cmd.exe (completion.c).

#include <limits.h>

#include "winemend.h"

static read_console real_ReadConsoleW;
static BOOL shell; // this is an interactive cmd.exe

// is_shell reports whether this process is cmd.exe without /c, which would make
// it end after one command.
static BOOL is_shell(void)
{
    const RTL_USER_PROCESS_PARAMETERS *params = NtCurrentTeb()->ProcessEnvironmentBlock->ProcessParameters;
    if (!is_image(L"\\cmd.exe")) return FALSE;
    const WCHAR *line = params->CommandLine.Buffer;
    USHORT n = params->CommandLine.Length / sizeof(WCHAR);
    for (USHORT i = 0; i + 1 < n; i++) {
        if (line[i] != '/') continue;
        WCHAR option = line[i + 1] | 32; // lower case
        if (option == 'c' || option == 'r') return FALSE;
        if (option == 'k') break; // the rest is the command
    }
    return TRUE;
}

// is_local reports whether memory is on the stack. cmd.exe reads answers there, and lines that it is going to run into
// other memory.
static BOOL is_local(const void *p)
{
    const NT_TIB *tib = (const NT_TIB *)NtCurrentTeb();
    return (ULONG_PTR)p >= (ULONG_PTR)tib->StackLimit && (ULONG_PTR)p < (ULONG_PTR)tib->StackBase;
}

static BOOL is_console(HANDLE handle)
{
    BOOL(WINAPI * get_mode)(HANDLE, DWORD *) = find_function(L"kernelbase.dll", "GetConsoleMode");
    DWORD mode;
    return get_mode && get_mode(handle, &mode);
}

// Ctrl+C makes ReadConsole succeed with nothing read and this error; so cmd.exe
// knows that it is to show a new prompt. Wine's takes it for the end of the
// input, and gets an empty line instead.
static BOOL WINAPI mend_ReadConsoleW(HANDLE input, void *buffer, DWORD size, DWORD *count, void *control)
{
    if (count && batch_pending() && is_console(input)) {
        *count = 0; // the event came before the read
        return TRUE;
    }
    BOOL line = is_command_prompt() && !control && count && size >= 2; // cmd.exe reads a key into one character
    BOOL ok = TRUE, key = is_command_prompt() && !line && count;
    BOOL prompts = line && !batch_running() && !is_local(buffer);
    if (prompts) {
        batch_over();
        level_prompts();
    }
    BOOL asks = key || (line && !prompts && !batch_running()); // a command does
    if (asks && !batch_read_begins(line)) {
        // `type` tries to read a file as a console first.
        if (!is_console(input)) return real_ReadConsoleW(input, buffer, size, count, control);
        *count = 0;
        if (key) return TRUE;
    } else {
        ok = line ? read_completing(real_ReadConsoleW, input, buffer, size, count)
                  : real_ReadConsoleW(input, buffer, size, count, control);
        if (asks) batch_read_ends();
    }
    if (prompts && ok && *count) lines_typed(buffer, *count);
    const WCHAR interrupt = 3; // pause reads a key in a mode in which Ctrl+C is one
    if (key && ok && *count == 1 && *(WCHAR *)buffer == interrupt) batch_key();
    if (!ok || !count || *count || !size) return ok;
    if (is_command_prompt() && batch_running()) {
        batch_read_interrupted();
    } else if (shell && size >= 2) {
        batch_read_interrupted();
        batch_ending(); // shows it
        ((WCHAR *)buffer)[0] = '\r';
        ((WCHAR *)buffer)[1] = '\n';
        *count = 2;
        return TRUE;
    }
    RtlSetLastWin32Error(ERROR_OPERATION_ABORTED);
    return TRUE;
}

// mend_ReadConsoleA is Wine's (dlls/kernelbase/console.c), whose first instructions cannot be moved, with the error.
static BOOL WINAPI mend_ReadConsoleA(HANDLE input, void *buffer, DWORD size, DWORD *count, void *control)
{
    (void)control; // for ReadConsoleW only
    const ULONG read_file = 0x50402c; // IOCTL_CONDRV_READ_FILE, include/wine/condrv.h
    IO_STATUS_BLOCK io;
    NTSTATUS status = STATUS_NO_MEMORY;
    memset(&io, 0, sizeof(io));
    if (size <= INT_MAX) {
        status = NtDeviceIoControlFile(input, NULL, NULL, NULL, &io, read_file, NULL, 0, buffer, size);
        if (status && status != STATUS_INVALID_PARAMETER) status = STATUS_INVALID_HANDLE;
        if (count) *count = status ? 0 : (DWORD)io.Information;
    }
    if (status) RtlSetLastWin32Error(RtlNtStatusToDosError(status));
    else if (size && !io.Information) RtlSetLastWin32Error(ERROR_OPERATION_ABORTED);
    return !status;
}

BOOL console_ignores(ULONG_PTR event)
{
    return (event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT) && batch_interrupted();
}

BOOL mend_console(void)
{
    shell = is_shell();
    batch_prompts(shell);
    real_ReadConsoleW = hook_function(L"kernelbase.dll", "ReadConsoleW", (void *)mend_ReadConsoleW);
    return real_ReadConsoleW && replace_function(L"kernelbase.dll", "ReadConsoleA", (void *)mend_ReadConsoleA);
}
