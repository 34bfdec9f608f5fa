// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// QueryServiceConfig2 and ChangeServiceConfig2 know descriptions, delayed start and
// preshutdown in Wine (programs/services/rpc.c). Programs that set up a service ask
// for more: Go's mgr.Service.Config reads recovery actions and fails without them.
//
// Windows' service manager sees the end of a service's process at once. Wine's does if
// the service was running (programs/services/services.c, process_monitor_thread_proc).
// Otherwise it goes on with the state before, forever: kubelet.exe, which exits while
// it stops, would never have stopped.
//
// Fidelity: accepted and ignored - recovery actions, the service's SID and privileges
// (docs/fidelity/wine.md).

#include "winemend.h"

// Levels of winsvc.h.
enum {
    CONFIG_FAILURE_ACTIONS = 2,
    CONFIG_FAILURE_FLAG = 4,
    CONFIG_SID = 5,
    CONFIG_PRIVILEGES = 6,
    CONFIG_PRESHUTDOWN = 7,
};

static BOOL(WINAPI *real_QueryServiceConfig2W)(void *, DWORD, BYTE *, DWORD, DWORD *);
static BOOL(WINAPI *real_ChangeServiceConfig2W)(void *, DWORD, void *);

static BOOL(WINAPI *real_QueryServiceConfig2A)(void *, DWORD, BYTE *, DWORD, DWORD *);
static BOOL(WINAPI *real_ChangeServiceConfig2A)(void *, DWORD, void *);

static BOOL(WINAPI *real_QueryServiceStatusEx)(void *, int, BYTE *, DWORD, DWORD *);
static BOOL(WINAPI *real_EnumServicesStatusExW)(void *, int, DWORD, DWORD, BYTE *, DWORD, DWORD *, DWORD *, DWORD *,
                                                const WCHAR *);

NTSYSAPI NTSTATUS NTAPI NtOpenProcess(HANDLE *, ACCESS_MASK, const OBJECT_ATTRIBUTES *, const void **);

static BOOL has_ended(DWORD pid)
{
    const void *id[2] = {(void *)(ULONG_PTR)pid, NULL}; // CLIENT_ID
    OBJECT_ATTRIBUTES attr = {.Length = sizeof(attr)};
    LARGE_INTEGER now = {0};
    HANDLE process;
    NTSTATUS status = NtOpenProcess(&process, SYNCHRONIZE, &attr, id);
    if (status) return status == STATUS_INVALID_CID || status == STATUS_INVALID_PARAMETER;
    status = NtWaitForSingleObject(process, FALSE, &now);
    NtClose(process);
    return status == STATUS_SUCCESS;
}

// show_end makes a service whose process has ended a stopped one.
static void show_end(SERVICE_STATUS_PROCESS *s)
{
    if (s->dwCurrentState == SERVICE_STOPPED || !s->dwProcessId || !has_ended(s->dwProcessId)) return;
    s->dwCurrentState = SERVICE_STOPPED;
    s->dwControlsAccepted = s->dwCheckPoint = s->dwWaitHint = s->dwProcessId = 0;
    s->dwWin32ExitCode = ERROR_PROCESS_ABORTED;
}

static BOOL WINAPI mend_QueryServiceStatusEx(void *service, int level, BYTE *buffer, DWORD size, DWORD *needed)
{
    BOOL ok = real_QueryServiceStatusEx(service, level, buffer, size, needed);
    if (ok && level == SC_STATUS_PROCESS_INFO) show_end((SERVICE_STATUS_PROCESS *)buffer);
    return ok;
}

static BOOL is_unknown_level(void)
{
    DWORD e = RtlGetLastWin32Error();
    return e == ERROR_INVALID_LEVEL || e == ERROR_CALL_NOT_IMPLEMENTED;
}

static BOOL WINAPI mend_QueryServiceConfig2W(void *service, DWORD level, BYTE *buffer, DWORD size, DWORD *needed)
{
    if (real_QueryServiceConfig2W(service, level, buffer, size, needed)) return TRUE;
    DWORD need;
    switch (level) {
    case CONFIG_FAILURE_ACTIONS: need = 40; break; // SERVICE_FAILURE_ACTIONSW
    case CONFIG_PRIVILEGES: need = 8; break;       // one pointer
    case CONFIG_FAILURE_FLAG:
    case CONFIG_SID: need = 4; break;
    default: return FALSE;
    }
    if (!is_unknown_level() || !needed) return FALSE;
    *needed = need;
    if (size < need) {
        RtlSetLastWin32Error(ERROR_INSUFFICIENT_BUFFER);
        return FALSE;
    }
    memset(buffer, 0, need); // the default of each
    return TRUE;
}

static BOOL WINAPI mend_ChangeServiceConfig2W(void *service, DWORD level, void *info)
{
    if (real_ChangeServiceConfig2W(service, level, info)) return TRUE;
    return level >= CONFIG_FAILURE_ACTIONS && level <= CONFIG_PRESHUTDOWN && is_unknown_level();
}

// Wine's A forms know fewer levels than its W forms, and convert no others. What is read back for these levels has no
// text, and what is written has no effect.
static BOOL WINAPI mend_QueryServiceConfig2A(void *service, DWORD level, BYTE *buffer, DWORD size, DWORD *needed)
{
    if (level < CONFIG_FAILURE_ACTIONS) return real_QueryServiceConfig2A(service, level, buffer, size, needed);
    return mend_QueryServiceConfig2W(service, level, buffer, size, needed);
}

static BOOL WINAPI mend_ChangeServiceConfig2A(void *service, DWORD level, void *info)
{
    BYTE none[40] = {0};
    if (level < CONFIG_FAILURE_ACTIONS || level > CONFIG_PRESHUTDOWN)
        return real_ChangeServiceConfig2A(service, level, info);
    BOOL text = level == CONFIG_FAILURE_ACTIONS || level == CONFIG_PRIVILEGES;
    return mend_ChangeServiceConfig2W(service, level, text ? none : info);
}

// Lists of services, of Wine's four functions for them, come from this one.
static BOOL WINAPI mend_EnumServicesStatusExW(void *manager, int level, DWORD type, DWORD state, BYTE *buffer, DWORD size,
                                              DWORD *needed, DWORD *returned, DWORD *resume, const WCHAR *group)
{
    // A service that has ended counts as active for Wine: all are listed, and those of the other state left out.
    DWORD wanted = state == SERVICE_ACTIVE || state == SERVICE_INACTIVE ? SERVICE_STATE_ALL : state;
    BOOL ok = real_EnumServicesStatusExW(manager, level, type, wanted, buffer, size, needed, returned, resume, group);
    ENUM_SERVICE_STATUS_PROCESSW *list = (ENUM_SERVICE_STATUS_PROCESSW *)buffer;
    DWORD kept = 0;
    for (DWORD i = 0; ok && i < *returned; i++) {
        SERVICE_STATUS_PROCESS *s = &list[i].ServiceStatusProcess;
        show_end(s);
        if (wanted == state || (state == SERVICE_INACTIVE) == (s->dwCurrentState == SERVICE_STOPPED))
            list[kept++] = list[i];
    }
    if (ok) *returned = kept;
    return ok;
}

// loaded sees each DLL before its DllMain runs.
static void CALLBACK loaded(ULONG reason, const struct dll_notification *data, void *context)
{
    (void)context;
    static const UNICODE_STRING sechost = {22, 24, L"sechost.dll"};
    if (reason != 1 || real_QueryServiceConfig2W || !RtlEqualUnicodeString(data->base_name, &sechost, TRUE)) return;
    const WCHAR *dll = sechost.Buffer;
    real_QueryServiceConfig2W = hook_function(dll, "QueryServiceConfig2W", (void *)mend_QueryServiceConfig2W);
    real_ChangeServiceConfig2W = hook_function(dll, "ChangeServiceConfig2W", (void *)mend_ChangeServiceConfig2W);
    real_QueryServiceConfig2A = hook_function(dll, "QueryServiceConfig2A", (void *)mend_QueryServiceConfig2A);
    real_ChangeServiceConfig2A = hook_function(dll, "ChangeServiceConfig2A", (void *)mend_ChangeServiceConfig2A);
    real_QueryServiceStatusEx = hook_function(dll, "QueryServiceStatusEx", (void *)mend_QueryServiceStatusEx);
    real_EnumServicesStatusExW = hook_function(dll, "EnumServicesStatusExW", (void *)mend_EnumServicesStatusExW);
}

BOOL mend_services(void)
{
    void *cookie;
    return !LdrRegisterDllNotification(0, loaded, NULL, &cookie);
}
