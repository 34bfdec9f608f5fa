// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The environment of a container's program. A program's variables come from those
// of its Linux process, and Wine adds its own (dlls/ntdll/unix/env.c,
// add_dynamic_environment) and those of a desktop session. Containers of Windows
// have none of them. Wine takes what it needs itself from the Linux process, and
// Linux processes hand that down. Wine also lets the registry override
// what a program's environment says and keeps some names to itself; mullion-init
// therefore gives each variable as MULLION_ENV_NAME=value (internal/wine,
// ContainerProcess), which here becomes NAME=value. Programs that such a program
// starts get its environment as Windows hands it down.

#include "winemend.h"

static SIZE_T chars(const WCHAR *s)
{
    SIZE_T n = 0;
    while (s[n]) n++;
    return n;
}

// set makes or, with value NULL, removes a variable of this process.
static void set(WCHAR *name, SIZE_T name_len, WCHAR *value)
{
    if (name_len > 0x7ffe || (value && chars(value) > 0x7ffe)) return; // more does not fit into a UNICODE_STRING
    UNICODE_STRING n = {(USHORT)(name_len * sizeof(WCHAR)), (USHORT)(name_len * sizeof(WCHAR)), name}, v;
    if (value) RtlInitUnicodeString(&v, value);
    RtlSetEnvironmentVariable(NULL, &n, value ? &v : NULL);
}

// What Wine adds to every process.
static const WCHAR *const dynamic[] = {
    L"WINEDATADIR", L"WINEHOMEDIR",  L"WINEBUILDDIR",   L"WINECONFIGDIR", L"WINEDLLDIR",
    L"WINELOADER",  L"WINEUSERNAME", L"WINEUSERLOCALE", L"WINEUNIXCP",
};

// What the first program has besides: from mullion-init, from Wine (winsysdir),
// and of a session, which programs of containers do not belong to.
static const WCHAR *const initial[] = {
    L"WINE",       L"LC_ALL",      L"USER",        L"MULLION_USER", L"winsysdir",
    L"CLIENTNAME", L"SESSIONNAME", L"LOGONSERVER", L"HOMEDRIVE",    L"HOMEPATH",
};

// matches reports whether a name is listed; names that begin with WINE are if a
// part of them is.
static BOOL matches(const WCHAR *entry, SIZE_T n, const WCHAR *const *list, SIZE_T count)
{
    for (SIZE_T i = 0; i < count; i++) {
        SIZE_T m = chars(list[i]);
        BOOL begins = n >= m && !memcmp(entry, list[i], m * sizeof(WCHAR));
        if (begins && (n == m || list[i][0] == 'W')) return TRUE;
    }
    return FALSE;
}

// is_own: whether a program is Wine's, started to set up a prefix: those look for
// Wine's files by the variables.
static BOOL is_own(void) { return is_image(L"\\wineboot.exe") || is_image(L"\\rundll32.exe"); }

// begins reports whether text begins with what, a name in lower case, in any case.
static BOOL begins(const WCHAR *text, const WCHAR *what)
{
    for (; *what; text++, what++)
        if ((*text >= 'A' && *text <= 'Z' ? *text + 32 : *text) != *what) return FALSE;
    return TRUE;
}

// spell gives the names and values that Wine makes up Windows' spelling, which is as
// long as Wine's.
static void spell(WCHAR *entry)
{
    static const struct {
        const WCHAR *wine, *windows;
    } directories[] = {{L"c:\\windows", L"C:\\Windows"}, {L"c:\\users\\", L"C:\\Users\\"}};
    if (begins(entry, L"path=")) memcpy(entry, L"Path", 4 * sizeof(WCHAR));
    BOOL upper = begins(entry, L"pathext=");
    for (; *entry; entry++) {
        if (upper && *entry >= 'a' && *entry <= 'z') *entry -= 32;
        for (SIZE_T i = 0; i < ARRAYSIZE(directories); i++)
            if (begins(entry, directories[i].wine))
                memcpy(entry, directories[i].windows, chars(directories[i].windows) * sizeof(WCHAR));
    }
}

// remove_foreign removes what came from Linux and Wine; what programs set for
// those that they start stays.
static void remove_foreign(void)
{
    RTL_USER_PROCESS_PARAMETERS *params = NtCurrentTeb()->ProcessEnvironmentBlock->ProcessParameters;
    WCHAR *to = *(WCHAR **)((char *)params + 0x80), *from = to; // Environment
    BOOL first = FALSE;
    if (!identity_known() || is_own()) return;
    for (const WCHAR *entry = from; entry && *entry; entry += chars(entry) + 1)
        first |= !memcmp(entry, L"WINEPREFIX=", 11 * sizeof(WCHAR));
    while (from && *from) {
        SIZE_T n = chars(from), name = 0;
        while (name < n && (from[name] != '=' || !name)) name++;
        if (!matches(from, name, dynamic, ARRAYSIZE(dynamic)) &&
            (!first || !matches(from, name, initial, ARRAYSIZE(initial)))) {
            memmove(to, from, (n + 1) * sizeof(WCHAR));
            // Wine sets SystemRoot in every process.
            if (first ? !begins(to, L"mullion_env_") : begins(to, L"systemroot=")) spell(to);
            to += n + 1;
        }
        from += n + 1;
    }
    if (to) *to = 0;
}

void set_environment(void)
{
    remove_foreign();
    static const WCHAR prefix[] = L"MULLION_ENV_";
    const SIZE_T head = ARRAYSIZE(prefix) - 1;
    RTL_USER_PROCESS_PARAMETERS *params = NtCurrentTeb()->ProcessEnvironmentBlock->ProcessParameters;
    const WCHAR *block = *(WCHAR **)((char *)params + 0x80); // Environment
    SIZE_T size = 0;
    BOOL any = FALSE;
    while (block && block[size]) {
        SIZE_T n = chars(block + size);
        any |= n > head && !memcmp(block + size, prefix, head * sizeof(WCHAR));
        size += n + 1;
    }
    if (!any) return;
    // A copy, because setting a variable may move the block.
    WCHAR *copy = alloc_mem((size + 1) * sizeof(WCHAR));
    if (!copy) return;
    memcpy(copy, block, size * sizeof(WCHAR));
    for (int pass = 0; pass < 2; pass++) { // first remove all, then set
        for (WCHAR *entry = copy; *entry;) {
            SIZE_T n = chars(entry), name = head;
            WCHAR *next = entry + n + 1;
            if (n > head && !memcmp(entry, prefix, head * sizeof(WCHAR))) {
                while (name < n && (entry[name] != '=' || name == head)) name++;
                if (!pass) set(entry, name, NULL);
                else if (name < n) set(entry + head, name - head, entry + name + 1);
            }
            entry = next;
        }
    }
    free_mem(copy);
}
