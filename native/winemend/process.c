// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// A process's begin and end in a container, together with the program
// mullion-init (internal/wine/launch):
//
//   - its command line, where one must arrive as it was written;
//   - its exit code, of which a Unix status has the lowest eight bits;
//   - control events. mullion-init sends SIGINT to ask it to end, and repeats it until
//     a file says that the process has noticed. The server sends SIGINT for Ctrl+C. For
//     both, Wine starts a thread at ntdll!__wine_ctrl_routine. The console host
//     (internal/console/condrv) starts one there for the other events.

#include "winemend.h"

#define STATUS_DIR "/run/mullion/"
#define STOP_MARKER STATUS_DIR ".stop"
#define STOP_NOTICED STATUS_DIR ".stop."
#define EXIT_FILE STATUS_DIR ".exit."
#define CTRL_C 0
#define CTRL_CLOSE 2
#define CTRL_SHUTDOWN 6

enum { LINUX_write_ = 1, LINUX_access_ = 21, LINUX_getpid_ = 39, LINUX_exit_group_ = 231 };
#define LINUX_O_WRONLY_CREAT (01 | 0100)
#define LINUX_O_EXCL 0200
#define LINUX_O_TRUNC 01000

static NTSTATUS(NTAPI *real_NtTerminateProcess)(HANDLE, NTSTATUS);

static int put_number(char *to, unsigned long long v)
{
    char digits[24];
    int d = 0, n = 0;
    do digits[d++] = (char)('0' + v % 10);
    while ((v /= 10) != 0);
    while (d > 0) to[n++] = digits[--d];
    to[n] = 0;
    return n;
}

// make_file makes a file whose name ends with the number of this process, and returns its descriptor or -errno.
static long long make_file(const char *prefix, int flags)
{
    char name[64];
    int n = 0;
    while (prefix[n]) {
        name[n] = prefix[n];
        n++;
    }
    put_number(name + n, (unsigned long long)linux_call(LINUX_getpid_, 0, 0, 0, 0, 0));
    return linux_call(LINUX_open, (long long)name, LINUX_O_WRONLY_CREAT | LINUX_O_CLOEXEC | flags, 0600, 0, 0);
}

static HANDLE handling_thread; // the id of the thread that calls the control handlers

HANDLE thread_id(void) { return *(HANDLE *)((char *)NtCurrentTeb() + 0x48); } // ClientId.UniqueThread

// leave ends this process at once. Wine calls the C library's exit, which takes the process's libraries down while
// threads that the wineserver has just ended still run in them: now and then a Go program died of that with SIGSEGV,
// and its exit code was lost. The wineserver has the code, from the call that ended the other threads.
static void leave(ULONG code)
{
    // As Wine's get_unix_exit_code: what is not a success must not become one.
    linux_call(LINUX_exit_group_, code && !(code & 0xff) ? 1 : code & 0xff, 0, 0, 0, 0);
}

static BOOL alone;       // the process's other threads have been ended
static ULONG alone_code; // with this exit code

#define EXCEPTION_WINE_STUB 0x80000100UL // a function that a DLL lacks was called

// exit_code returns what the process ends with on Windows where it ends with code under Wine.
static ULONG exit_code(ULONG code)
{
    if (code == EXCEPTION_WINE_STUB) return (ULONG)STATUS_ENTRYPOINT_NOT_FOUND;
    // UCRT's _invoke_watson calls __fastfail. The older runtime libraries raise the exception.
    if (code == (ULONG)STATUS_INVALID_CRUNTIME_PARAMETER && find_function(L"ucrtbase.dll", "abort"))
        return (ULONG)STATUS_STACK_BUFFER_OVERRUN;
    return level_exit_code(code);
}

static NTSTATUS NTAPI mend_NtTerminateProcess(HANDLE process, NTSTATUS code)
{
    // ExitProcess ends the other threads by a call without a process, then has the libraries detached, then ends itself.
    if (process && process != NtCurrentProcess()) return real_NtTerminateProcess(process, code);
    // No handler took the event: Wine's last one ends the process with 0,
    // Windows' with STATUS_CONTROL_C_EXIT.
    if (!code && handling_thread == thread_id()) code = STATUS_CONTROL_C_EXIT;
    code = (NTSTATUS)exit_code((ULONG)code);
    if (!process) {
        alone = TRUE;
        alone_code = (ULONG)code;
        return real_NtTerminateProcess(process, code);
    }
    if (code) {
        // Without the file the loader has ended the process, before this DLL began (internal/wine/launch, loaderCodes).
        // Outside of a container the directory does not exist.
        char text[16];
        long long fd = make_file(EXIT_FILE, LINUX_O_TRUNC);
        if (fd >= 0) {
            linux_call(LINUX_write_, fd, (long long)text, put_number(text, (ULONG)code), 0, 0);
            linux_call(LINUX_close, fd, 0, 0, 0, 0);
        }
    }
    if (alone && alone_code == (ULONG)code) leave((ULONG)code);
    return real_NtTerminateProcess(process, code);
}

BOOL process_ends(void) { return alone; }

void end_process(ULONG code) { mend_NtTerminateProcess(NtCurrentProcess(), (NTSTATUS)code); }

// take_stop takes a request to end, and reports whether it is the first. mullion-init repeats it until it finds the
// file that says so.
static BOOL take_stop(void)
{
    long long fd = make_file(STOP_NOTICED, LINUX_O_EXCL);
    if (fd >= 0) linux_call(LINUX_close, fd, 0, 0, 0, 0);
    return fd != -LINUX_EEXIST;
}

// A program that has just begun gets the request when it is this old. The runtime of Go loses an event for good that
// comes after it has called SetConsoleCtrlHandler and before runtime.main has made main_init_done (cgocallbackg1 in
// runtime/cgocall.go), which takes it a moment, but longer on a busy machine.
#define MIN_AGE_100NS (500 * 10000LL)

static LARGE_INTEGER begin; // when this process began

static void await_min_age(void)
{
    LARGE_INTEGER now, wait;
    NtQuerySystemTime(&now);
    wait.QuadPart = now.QuadPart - begin.QuadPart - MIN_AGE_100NS; // negative: from now
    if (wait.QuadPart < 0) NtDelayExecution(FALSE, &wait);
}

static void WINAPI mend_ctrl_routine(void *event)
{
    DWORD(WINAPI * routine)(void *) = find_function(L"kernelbase.dll", "CtrlRoutine");
    if ((ULONG_PTR)event == CTRL_C && !linux_call(LINUX_access_, (long long)STOP_MARKER, 0, 0, 0, 0)) {
        event = (void *)CTRL_SHUTDOWN;
        if (!take_stop()) RtlExitUserThread(0);
        await_min_age();
    }
    if (console_ignores((ULONG_PTR)event)) RtlExitUserThread(0);
    handling_thread = thread_id();
    // A program in a process group of its own ignores Ctrl+C only; Wine's ignores all events.
    ULONG *flags = (ULONG *)((char *)NtCurrentTeb()->ProcessEnvironmentBlock->ProcessParameters + 0x18); // ConsoleFlags
    ULONG ignores = (ULONG_PTR)event == CTRL_C ? 0 : *flags & 1;
    *flags &= ~ignores;
    DWORD code = routine ? routine(event) : 0;
    *flags |= ignores;
    // A handler has taken the event. After these, Windows ends the process as soon as the handler returns (HandlerRoutine
    // in the documentation of consoles), in a container too (issue 115206 of dotnet/runtime).
    if ((ULONG_PTR)event == CTRL_CLOSE || (ULONG_PTR)event == CTRL_SHUTDOWN) end_process((ULONG)STATUS_CONTROL_C_EXIT);
    RtlExitUserThread(code);
}

// set_command_line takes MULLION_COMMAND_LINE=... out of the environment block
// and makes its value the command line.
static void set_command_line(void)
{
    static const WCHAR name[] = L"MULLION_COMMAND_LINE=";
    RTL_USER_PROCESS_PARAMETERS *params = NtCurrentTeb()->ProcessEnvironmentBlock->ProcessParameters;
    WCHAR *entry = *(WCHAR **)((char *)params + 0x80), *end; // Environment
    SIZE_T prefix = ARRAYSIZE(name) - 1;
    for (; entry && *entry; entry = end) {
        SIZE_T n = 0;
        while (entry[n]) n++;
        end = entry + n + 1;
        if (n < prefix || memcmp(entry, name, prefix * sizeof(WCHAR))) continue;
        SIZE_T bytes = (n - prefix + 1) * sizeof(WCHAR);
        // Wine starts wineboot.exe before the program, with the same environment.
        WCHAR *line = bytes <= 0xfffe && !is_image(L"\\wineboot.exe") ? alloc_mem(bytes) : NULL;
        if (line) {
            memcpy(line, entry + prefix, bytes);
            params->CommandLine.Buffer = line;
            params->CommandLine.Length = (USHORT)(bytes - sizeof(WCHAR));
            params->CommandLine.MaximumLength = (USHORT)bytes;
        }
        WCHAR *last = end;
        while (*last) {
            while (*last) last++;
            last++;
        }
        memmove(entry, end, (SIZE_T)((char *)(last + 1) - (char *)end));
        return;
    }
}

BOOL mend_process(void)
{
    NtQuerySystemTime(&begin);
    set_command_line();
    set_environment();
    real_NtTerminateProcess = hook_syscall("NtTerminateProcess", (void *)mend_NtTerminateProcess);
    BOOL ctrl = replace_function(L"ntdll.dll", "__wine_ctrl_routine", (void *)mend_ctrl_routine);
    return real_NtTerminateProcess && ctrl;
}
