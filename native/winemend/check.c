// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Whether this DLL fits Wine. It recognizes the functions that it replaces by their code, and leaves those of another
// Wine as they are; programs would then meet Wine's behaviour here and Windows' there. So mullion-init runs
// winemend_check when it has filled a prefix, by Wine's rundll32.exe (internal/wine/launch, FillPrefix).

#include "winemend.h"

NTSYSAPI NTSTATUS NTAPI NtTerminateProcess(HANDLE, NTSTATUS);

// The exit codes. rundll32.exe itself ends with 0.
enum { FITS = 1, MOST = 100 };

static HMODULE load(const WCHAR *dll)
{
    UNICODE_STRING name;
    HMODULE module = NULL;
    RtlInitUnicodeString(&name, dll);
    if (LdrLoadDll(NULL, 0, &name, &module)) not_replaced();
    return module;
}

__declspec(dllexport) void CALLBACK winemend_check(HWND window, HINSTANCE instance, char *line, int show)
{
    (void)window, (void)instance, (void)line, (void)show;
    // Functions of these are replaced when they are loaded.
    static const WCHAR *const dlls[] = {
        L"advapi32.dll", L"crypt32.dll", L"sechost.dll", L"secur32.dll", L"ucrtbase.dll", L"userenv.dll", L"user32.dll",
    };
    for (SIZE_T i = 0; i < ARRAYSIZE(dlls); i++) load(dlls[i]);
    HMODULE prompt = load(L"cmd.exe");
    if (prompt) check_command(prompt);
    NtTerminateProcess(NtCurrentProcess(), FITS + (NTSTATUS)(failures() < MOST ? failures() : MOST));
}
