// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// GenerateConsoleCtrlEvent with CTRL_BREAK_EVENT, by which programs stop what they have
// started in a process group of its own. Wine's server sends SIGQUIT (server/console.c,
// propagate_console_signal), which ends a thread (dlls/ntdll/unix/signal_x86_64.c, quit_handler). Source:
// https://learn.microsoft.com/windows/console/generateconsolectrlevent, read 2026-11.

#include "winemend.h"

NTSTATUS NTAPI NtOpenProcess(HANDLE *process, ACCESS_MASK access, const OBJECT_ATTRIBUTES *attr, const CLIENT_ID *id);
NTSTATUS NTAPI RtlCreateUserThread(HANDLE process, void *security, BOOLEAN suspended, ULONG zero, SIZE_T reserve,
                                   SIZE_T commit, void *start, void *argument, HANDLE *thread, CLIENT_ID *id);

static BOOL(WINAPI *real_GenerateConsoleCtrlEvent)(DWORD event, DWORD group);

static BOOL open_process(DWORD pid, HANDLE *process)
{
    OBJECT_ATTRIBUTES attr = {.Length = sizeof(attr)};
    CLIENT_ID id = {.UniqueProcess = (HANDLE)(ULONG_PTR)pid};
    return NtOpenProcess(process, PROCESS_ALL_ACCESS, &attr, &id) == 0;
}

static DWORD parent_of(DWORD pid)
{
    ULONG_PTR info[6] = {0}; // PROCESS_BASIC_INFORMATION
    HANDLE process;
    if (!open_process(pid, &process)) return 0; // it has ended
    NtQueryInformationProcess(process, ProcessBasicInformation, info, sizeof(info), NULL);
    NtClose(process);
    return (DWORD)info[5]; // InheritedFromUniqueProcessId
}

// is_member reports whether a process belongs to a group: the group has the number of its first process. Wine tells no
// program which group another one is in, so all descendants count.
static BOOL is_member(DWORD pid, DWORD group)
{
    for (int depth = 0; pid && depth < 32; depth++, pid = parent_of(pid))
        if (pid == group) return TRUE;
    return FALSE;
}

static void send_break(DWORD pid, void *routine)
{
    HANDLE process, thread;
    void *event = (void *)CTRL_BREAK_EVENT;
    if (!open_process(pid, &process)) return; // it has ended
    if (!RtlCreateUserThread(process, NULL, FALSE, 0, 0, 0, routine, event, &thread, NULL)) NtClose(thread);
    NtClose(process);
}

static BOOL WINAPI mend_GenerateConsoleCtrlEvent(DWORD event, DWORD group)
{
    if (event != CTRL_BREAK_EVENT) return real_GenerateConsoleCtrlEvent(event, group);
    DWORD(WINAPI * list_processes)(DWORD *, DWORD) = find_function(L"kernelbase.dll", "GetConsoleProcessList");
    void *routine = find_function(L"ntdll.dll", "__wine_ctrl_routine");
    DWORD list[1024], n = list_processes ? list_processes(list, ARRAYSIZE(list)) : 0;
    if (!n || n > ARRAYSIZE(list) || !routine) {
        RtlSetLastWin32Error(ERROR_INVALID_HANDLE); // there is no console
        return FALSE;
    }
    BOOL sent = FALSE;
    for (DWORD i = 0; i < n; i++) {
        if (group && !is_member(list[i], group)) continue;
        send_break(list[i], routine);
        sent = TRUE;
    }
    if (!sent) RtlSetLastWin32Error(ERROR_INVALID_PARAMETER);
    return sent;
}

BOOL mend_break(void)
{
    real_GenerateConsoleCtrlEvent =
        hook_function(L"kernelbase.dll", "GenerateConsoleCtrlEvent", (void *)mend_GenerateConsoleCtrlEvent);
    return real_GenerateConsoleCtrlEvent != NULL;
}
