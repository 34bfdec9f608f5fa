// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The version that RtlGetVersion and its relatives tell. Wine 8 takes it from
// the registry value CurrentVersion, which on Windows stopped at "6.3" when
// CurrentMajorVersionNumber came (Windows 10).

#include "winemend.h"

NTSYSAPI NTSTATUS NTAPI RtlGetVersion(RTL_OSVERSIONINFOW *);

static RTL_OSVERSIONINFOEXW version;

static NTSTATUS NTAPI mend_RtlGetVersion(RTL_OSVERSIONINFOEXW *out)
{
    ULONG size = out->dwOSVersionInfoSize;
    ULONG full = size == sizeof(RTL_OSVERSIONINFOEXW) ? sizeof(RTL_OSVERSIONINFOEXW) : sizeof(RTL_OSVERSIONINFOW);
    memcpy(out, &version, full);
    out->dwOSVersionInfoSize = size;
    return STATUS_SUCCESS;
}

static void NTAPI mend_RtlGetNtVersionNumbers(ULONG *major, ULONG *minor, ULONG *build)
{
    if (major) *major = version.dwMajorVersion;
    if (minor) *minor = version.dwMinorVersion;
    // The highest bits say "free build", not "checked build".
    if (build) *build = 0xf0000000 | version.dwBuildNumber;
}

BOOL mend_version(void)
{
    version.dwOSVersionInfoSize = sizeof(version);
    RtlGetVersion((RTL_OSVERSIONINFOW *)&version);
    // 10240 is the first build of Windows 10.
    if (version.dwMajorVersion != 6 || version.dwBuildNumber < 10240) return TRUE;
    version.dwMajorVersion = 10;
    version.dwMinorVersion = 0;
    version.wServicePackMajor = version.wServicePackMinor = 0;
    version.szCSDVersion[0] = 0;
    // The same numbers in the PEB (OSMajorVersion, OSMinorVersion), for GetVersion.
    char *peb = (char *)NtCurrentTeb()->ProcessEnvironmentBlock;
    *(ULONG *)(peb + 0x118) = 10;
    *(ULONG *)(peb + 0x11c) = 0;
    return replace_function(L"ntdll.dll", "RtlGetVersion", (void *)mend_RtlGetVersion) &&
           replace_function(L"ntdll.dll", "RtlGetNtVersionNumbers", (void *)mend_RtlGetNtVersionNumbers);
}
