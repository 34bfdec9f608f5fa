// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The size of a console. Wine's conhost.exe reads that of the terminal below it
// when it starts, and never again. Here a program that asks for the size has the
// terminal asked first, and the console changed to it.
//
// Fidelity: subset - a program learns of a new size when it asks; there are no
// WINDOW_BUFFER_SIZE_EVENTs (docs/fidelity/wine.md).

#include "mend.h"

enum { LINUX_ioctl_ = 16 };
#define LINUX_O_RDWR_NOCTTY (02 | 0400)
#define LINUX_TIOCGWINSZ 0x5413

static BOOL(WINAPI *real_GetConsoleScreenBufferInfo)(HANDLE, CONSOLE_SCREEN_BUFFER_INFO *);
static BOOL(WINAPI *real_GetConsoleScreenBufferInfoEx)(HANDLE, CONSOLE_SCREEN_BUFFER_INFOEX *);

// terminal_size reads the size of the process's controlling terminal.
static BOOL terminal_size(COORD *size)
{
    unsigned short window[4] = {0}; // struct winsize: rows, columns, pixels
    long long fd = linux_call(LINUX_open, (long long)"/dev/tty", LINUX_O_RDWR_NOCTTY | LINUX_O_CLOEXEC, 0, 0, 0);
    if (fd < 0) return FALSE;
    long long result = linux_call(LINUX_ioctl_, fd, LINUX_TIOCGWINSZ, (long long)window, 0, 0);
    linux_call(LINUX_close, fd, 0, 0, 0, 0);
    // More than a console of Windows can have is nobody's real terminal.
    if (result || !window[0] || !window[1] || window[0] > 0x7fff || window[1] > 0x7fff) return FALSE;
    size->Y = (SHORT)window[0];
    size->X = (SHORT)window[1];
    return TRUE;
}

// follow gives the console of an output handle the terminal's size.
static void follow(HANDLE output, const CONSOLE_SCREEN_BUFFER_INFO *now)
{
    COORD want;
    SHORT width = (SHORT)(now->srWindow.Right - now->srWindow.Left + 1);
    SHORT height = (SHORT)(now->srWindow.Bottom - now->srWindow.Top + 1);
    if (!terminal_size(&want) || (want.X == width && want.Y == height)) return;
    BOOL(WINAPI * set_buffer)(HANDLE, COORD) = find_function(L"kernelbase.dll", "SetConsoleScreenBufferSize");
    BOOL(WINAPI * set_window)(HANDLE, BOOL, const SMALL_RECT *) = find_function(L"kernelbase.dll", "SetConsoleWindowInfo");
    if (!set_buffer || !set_window) return;
    // The window must lie within the buffer before and after each step.
    SMALL_RECT both = {0, 0, (SHORT)((want.X < width ? want.X : width) - 1), (SHORT)((want.Y < height ? want.Y : height) - 1)};
    SMALL_RECT all = {0, 0, (SHORT)(want.X - 1), (SHORT)(want.Y - 1)};
    DWORD error = RtlGetLastWin32Error();
    if (set_window(output, TRUE, &both) && set_buffer(output, want)) set_window(output, TRUE, &all);
    RtlSetLastWin32Error(error);
}

static BOOL WINAPI mend_GetConsoleScreenBufferInfo(HANDLE output, CONSOLE_SCREEN_BUFFER_INFO *info)
{
    if (!real_GetConsoleScreenBufferInfo(output, info)) return FALSE;
    follow(output, info);
    return real_GetConsoleScreenBufferInfo(output, info);
}

static BOOL WINAPI mend_GetConsoleScreenBufferInfoEx(HANDLE output, CONSOLE_SCREEN_BUFFER_INFOEX *info)
{
    CONSOLE_SCREEN_BUFFER_INFO now;
    if (real_GetConsoleScreenBufferInfo(output, &now)) follow(output, &now);
    return real_GetConsoleScreenBufferInfoEx(output, info);
}

BOOL mend_console(void)
{
    real_GetConsoleScreenBufferInfo =
        hook_function(L"kernelbase.dll", "GetConsoleScreenBufferInfo", (void *)mend_GetConsoleScreenBufferInfo);
    if (!real_GetConsoleScreenBufferInfo) return FALSE;
    real_GetConsoleScreenBufferInfoEx =
        hook_function(L"kernelbase.dll", "GetConsoleScreenBufferInfoEx", (void *)mend_GetConsoleScreenBufferInfoEx);
    return real_GetConsoleScreenBufferInfoEx != NULL;
}
