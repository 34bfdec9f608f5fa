// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Links in cmd.exe: mklink /J, which Wine's does not have, what mklink prints, and the
// lines of dir, where Wine's shows a link as what it leads to.

#include "winemend.h"

static int(WINAPI *real_lstrcmpiW)(const WCHAR *, const WCHAR *);
static BOOLEAN(WINAPI *real_CreateSymbolicLinkW)(const WCHAR *, const WCHAR *, DWORD);
static BOOL(WINAPI *real_CreateHardLinkW)(const WCHAR *, const WCHAR *, SECURITY_ATTRIBUTES *);

static void (*say_error)(void);
static void (*say)(const WCHAR *);
static BOOL junction; // mklink has the option /J
static BOOL fails;    // mklink says why

void links_command(void) { junction = FALSE; }

const char *links_message(ULONG error)
{
    return fails && error == ERROR_ALREADY_EXISTS ? "Cannot create a file when that file already exists." : NULL;
}

// mklink compares each argument with /D first.
static int WINAPI mend_lstrcmpiW(const WCHAR *a, const WCHAR *b)
{
    if (same_text(b, L"/D") && a[0] == '/' && (a[1] | 32) == 'j' && !a[2]) {
        junction = TRUE;
        return 0;
    }
    return real_lstrcmpiW(a, b);
}

// unix_name finds the Unix path of a file, without following a link in the last place.
static BOOL unix_name(const WCHAR *path, char out[PATH_SIZE])
{
    UNICODE_STRING name;
    OBJECT_ATTRIBUTES attr;
    if (!RtlDosPathNameToNtPathName_U(path, &name, NULL, NULL)) return FALSE;
    InitializeObjectAttributes(&attr, &name, OBJ_CASE_INSENSITIVE, NULL, NULL);
    BOOL ok = unix_path(&attr, out);
    RtlFreeUnicodeString(&name);
    return ok;
}

static BOOLEAN make_junction(const WCHAR *link, const WCHAR *target)
{
    DWORD(WINAPI * full)(const WCHAR *, DWORD, WCHAR *, WCHAR **) = find_function(L"kernelbase.dll", "GetFullPathNameW");
    WCHAR whole[1024];
    char path[PATH_SIZE];
    DWORD n = full ? full(target, ARRAYSIZE(whole), whole, NULL) : 0;
    NTSTATUS status = STATUS_OBJECT_PATH_NOT_FOUND;
    if (n && n < ARRAYSIZE(whole) && unix_name(link, path)) status = make_link(path, whole, TRUE);
    if (status) RtlSetLastWin32Error(RtlNtStatusToDosError(status));
    return !status;
}

static void put(WCHAR *to, SIZE_T size, const WCHAR *text)
{
    SIZE_T n = 0;
    while (to[n]) n++;
    while (*text && n < size - 1) to[n++] = *text++;
    to[n] = 0;
}

static void report(BOOL ok, const WCHAR *what, const WCHAR *link, const WCHAR *target)
{
    WCHAR line[1024] = {0};
    if (!ok) {
        fails = TRUE;
        say_error();
        fails = FALSE;
        return;
    }
    put(line, ARRAYSIZE(line), what);
    put(line, ARRAYSIZE(line), L" created for ");
    put(line, ARRAYSIZE(line), link);
    put(line, ARRAYSIZE(line), L" <<===>> ");
    put(line, ARRAYSIZE(line), target);
    say(line);
}

static BOOLEAN WINAPI mend_link(const WCHAR *link, const WCHAR *target, DWORD flags)
{
    BOOLEAN ok = junction ? make_junction(link, target) : real_CreateSymbolicLinkW(link, target, flags);
    report(ok, junction ? L"Junction" : L"symbolic link", link, target);
    return ok;
}

static BOOL WINAPI mend_CreateHardLinkW(const WCHAR *link, const WCHAR *target, SECURITY_ATTRIBUTES *security)
{
    BOOL ok = real_CreateHardLinkW(link, target, security);
    report(ok, L"Hardlink", link, target);
    return ok;
}

#define COLUMN 15 // the characters for <DIR> or the size, and the blank behind

static WCHAR listed[1024]; // the directory that dir lists
static WCHAR line[2048];   // the part of a line before the name; empty: none
static SIZE_T column;      // where <DIR> or the size is

void links_directory(const WCHAR *path)
{
    listed[0] = line[0] = 0;
    put(listed, ARRAYSIZE(listed), path);
}

// show_link changes the line of a link, and adds its target.
static void show_link(const WIN32_FIND_DATAW *found)
{
    WCHAR text[1024] = {0};
    char path[PATH_SIZE];
    struct link_info info;
    BOOL relative;
    put(text, ARRAYSIZE(text), listed);
    put(text, ARRAYSIZE(text), L"\\");
    put(text, ARRAYSIZE(text), found->cFileName);
    if (!unix_name(text, path) || !is_link(path, &info) || read_link(path, text, ARRAYSIZE(text), &relative)) return;
    const WCHAR *kind = info.tag == TAG_MOUNT_POINT ? L"<JUNCTION>     "
                        : info.directory            ? L"<SYMLINKD>     "
                                                    : L"<SYMLINK>      ";
    memcpy(line + column, kind, COLUMN * sizeof(WCHAR));
    put(line, ARRAYSIZE(line), L" [");
    put(line, ARRAYSIZE(line), text);
    put(line, ARRAYSIZE(line), L"]");
}

BOOL links_line(const WCHAR *format, const WCHAR *text, const WCHAR *argument, const WCHAR **whole)
{
    *whole = NULL;
    if (same_text(format, L"%1  %2    <DIR>          ") || same_text(format, L"%1  %2    %3!14s! ")) {
        line[0] = 0;
        put(line, ARRAYSIZE(line), text);
        SIZE_T n = 0;
        while (line[n]) n++;
        column = n > COLUMN ? n - COLUMN : 0;
        return TRUE;
    }
    if (!line[0]) return FALSE;
    if (same_text(format, L"%1!-13s!") || same_text(format, L"%1!-23s!")) { // the short name, the owner
        put(line, ARRAYSIZE(line), text);
        return TRUE;
    }
    if (!same_text(format, L"%1")) return FALSE;
    // cmd.exe passes the name in what it has found.
    const WIN32_FIND_DATAW *found = (const void *)((const char *)argument - offsetof(WIN32_FIND_DATAW, cFileName));
    static WCHAR done[ARRAYSIZE(line)];
    put(line, ARRAYSIZE(line), argument);
    if (found->dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) show_link(found);
    memcpy(done, line, sizeof(done));
    line[0] = 0;
    *whole = done;
    return TRUE;
}

void mend_link_commands(HMODULE program, void (*line_printer)(const WCHAR *), void (*error_printer)(void))
{
    say = line_printer;
    say_error = error_printer;
    const struct import functions[] = {
        {"lstrcmpiW", (void *)mend_lstrcmpiW, &real_lstrcmpiW},
        {"CreateSymbolicLinkW", (void *)mend_link, &real_CreateSymbolicLinkW},
        {"CreateHardLinkW", (void *)mend_CreateHardLinkW, &real_CreateHardLinkW},
    };
    replace_imports(program, functions, ARRAYSIZE(functions));
}
