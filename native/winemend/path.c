// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// From names of Windows to paths of Unix.

#include "winemend.h"

NTSTATUS(WINAPI *wine_nt_to_unix)(const OBJECT_ATTRIBUTES *, char *, ULONG *, UINT);
NTSTATUS(WINAPI *wine_unix_to_nt)(const char *, WCHAR *, ULONG *);

// drive_c is the Unix path of C:\ with a slash at its end. Nearly every name
// begins with it, and putting it in front is much quicker than asking Wine.
static char drive_c[PATH_SIZE];
static int drive_c_len;

BOOL init_paths(void)
{
    wine_nt_to_unix = find_function(L"ntdll.dll", "wine_nt_to_unix_file_name");
    wine_unix_to_nt = find_function(L"ntdll.dll", "wine_unix_to_nt_file_name");
    return wine_nt_to_unix && wine_unix_to_nt;
}

int to_utf8(const WCHAR *from, int len, char *to, int size)
{
    int n = 0;
    for (int i = 0; i < len; i++) {
        unsigned c = from[i];
        if (c >= 0xd800 && c < 0xdc00 && i + 1 < len && from[i + 1] >= 0xdc00 && from[i + 1] < 0xe000)
            c = 0x10000 + ((c - 0xd800) << 10) + (from[++i] - 0xdc00u);
        if (n + 4 >= size) return -1;
        if (c < 0x80) {
            to[n++] = (char)c;
        } else if (c < 0x800) {
            to[n++] = (char)(0xc0 | c >> 6);
            to[n++] = (char)(0x80 | (c & 0x3f));
        } else if (c < 0x10000) {
            to[n++] = (char)(0xe0 | c >> 12);
            to[n++] = (char)(0x80 | (c >> 6 & 0x3f));
            to[n++] = (char)(0x80 | (c & 0x3f));
        } else {
            to[n++] = (char)(0xf0 | c >> 18);
            to[n++] = (char)(0x80 | (c >> 12 & 0x3f));
            to[n++] = (char)(0x80 | (c >> 6 & 0x3f));
            to[n++] = (char)(0x80 | (c & 0x3f));
        }
    }
    to[n] = 0;
    return n;
}

int to_utf16(const char *from, WCHAR *to, int size)
{
    int n = 0;
    for (const unsigned char *p = (const unsigned char *)from; *p;) {
        unsigned c = *p++;
        int more = c < 0xc0 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
        if (more) c &= 0x3fu >> more;
        for (; more > 0 && (*p & 0xc0) == 0x80; more--) c = c << 6 | (*p++ & 0x3f);
        if (n + 2 >= size) return -1;
        if (c >= 0x10000) {
            to[n++] = (WCHAR)(0xd800 + ((c - 0x10000) >> 10));
            to[n++] = (WCHAR)(0xdc00 + ((c - 0x10000) & 0x3ff));
        } else {
            to[n++] = (WCHAR)c;
        }
    }
    to[n++] = 0;
    return n;
}

NTSTATUS status_of(long long result)
{
    switch (-result) {
    case 0: return STATUS_SUCCESS;
    case LINUX_EPERM:
    case LINUX_EACCES: return STATUS_ACCESS_DENIED;
    case LINUX_ENOENT: return STATUS_OBJECT_NAME_NOT_FOUND;
    case LINUX_EEXIST: return STATUS_OBJECT_NAME_COLLISION;
    case LINUX_ENOTDIR: return STATUS_OBJECT_PATH_NOT_FOUND;
    case LINUX_EISDIR: return STATUS_FILE_IS_A_DIRECTORY;
    case LINUX_ENOSPC: return STATUS_DISK_FULL;
    case LINUX_EROFS: return STATUS_MEDIA_WRITE_PROTECTED;
    case LINUX_ENAMETOOLONG: return STATUS_NAME_TOO_LONG;
    case LINUX_ENOTEMPTY: return STATUS_DIRECTORY_NOT_EMPTY;
    case LINUX_ELOOP: return STATUS_REPARSE_POINT_NOT_RESOLVED;
    default: return result < 0 ? STATUS_UNSUCCESSFUL : STATUS_SUCCESS;
    }
}

// ask_wine resolves a name with Wine's own rules (case, drives).
static BOOL ask_wine(const WCHAR *name, int len, char path[PATH_SIZE])
{
    UNICODE_STRING us = {(USHORT)(len * sizeof(WCHAR)), (USHORT)(len * sizeof(WCHAR)), (WCHAR *)name};
    OBJECT_ATTRIBUTES attr;
    InitializeObjectAttributes(&attr, &us, OBJ_CASE_INSENSITIVE, NULL, NULL);
    ULONG size = PATH_SIZE;
    // FILE_OPEN_IF: the last part may be missing, which gives NO_SUCH_FILE.
    NTSTATUS status = wine_nt_to_unix(&attr, path, &size, FILE_OPEN_IF);
    return status == STATUS_SUCCESS || status == STATUS_NO_SUCH_FILE;
}

static BOOL is_drive(const WCHAR *name, int len)
{
    return len >= 7 && name[0] == '\\' && name[1] == '?' && name[2] == '?' && name[3] == '\\' && name[5] == ':' &&
           name[6] == '\\';
}

static BOOL is_unix(const WCHAR *name, int len)
{
    static const WCHAR prefix[] = L"\\??\\unix\\";
    return len >= 9 && !memcmp(name, prefix, 9 * sizeof(WCHAR));
}

static BOOL find_drive_c(void)
{
    if (drive_c_len) return TRUE;
    if (!ask_wine(L"\\??\\C:\\", 7, drive_c)) return FALSE;
    int n = 0;
    while (drive_c[n]) n++;
    if (drive_c[n - 1] != '/') drive_c[n++] = '/';
    drive_c_len = n;
    return TRUE;
}

// GetFinalPathNameByHandle names files by the volume on request. Windows opens such names, and Wine does not. Bun opens
// its files by them.
BOOL name_by_drive(const OBJECT_ATTRIBUTES *attr, struct by_drive *out)
{
    static const WCHAR drive[] = L"\\??\\C:", *const volumes[] = {
        L"\\Device\\HarddiskVolume1\\", L"\\??\\GLOBALROOT\\Device\\HarddiskVolume1\\"};
    const USHORT drive_len = sizeof(drive) - sizeof(WCHAR);
    if (!attr || !attr->ObjectName || attr->RootDirectory) return FALSE;
    for (SIZE_T i = 0; i < ARRAYSIZE(volumes); i++) {
        UNICODE_STRING volume, begin = *attr->ObjectName;
        RtlInitUnicodeString(&volume, volumes[i]);
        if (begin.Length < volume.Length) continue;
        begin.Length = volume.Length;
        if (!RtlEqualUnicodeString(&begin, &volume, TRUE)) continue;
        const USHORT rest = (USHORT)(attr->ObjectName->Length - volume.Length + sizeof(WCHAR)); // with the backslash
        out->buffer = alloc_mem((SIZE_T)drive_len + rest);
        if (!out->buffer) return FALSE;
        memcpy(out->buffer, drive, drive_len);
        memcpy((char *)out->buffer + drive_len, (char *)attr->ObjectName->Buffer + volume.Length - sizeof(WCHAR), rest);
        out->name.Buffer = out->buffer;
        out->name.Length = out->name.MaximumLength = (USHORT)(drive_len + rest);
        out->attr = *attr;
        out->attr.ObjectName = &out->name;
        return TRUE;
    }
    return FALSE;
}

BOOL is_drive_root(const char *path)
{
    if (!find_drive_c()) return FALSE;
    int n = drive_c_len - 1; // the slash may be missing
    return !memcmp(path, drive_c, (SIZE_T)n) && (!path[n] || (path[n] == '/' && !path[n + 1]));
}

static BOOL name_to_unix(const WCHAR *name, int len, char path[PATH_SIZE])
{
    if (!is_drive(name, len) && !is_unix(name, len)) return FALSE;
    // A backslash at the end means what a link leads to.
    if (len > 7 && name[len - 1] == '\\') return FALSE;
    if ((name[4] | 0x20) == 'c' && name[5] == ':') {
        if (!find_drive_c()) return FALSE;
        memcpy(path, drive_c, (SIZE_T)drive_c_len);
        int n = to_utf8(name + 7, len - 7, path + drive_c_len, PATH_SIZE - drive_c_len);
        if (n < 0) return FALSE;
        for (int i = drive_c_len; path[i]; i++)
            if (path[i] == '\\') path[i] = '/';
        struct linux_stat st;
        if (!linux_call(LINUX_lstat, (long long)path, (long long)&st, 0, 0, 0)) return TRUE;
    }
    return ask_wine(name, len, path);
}

WCHAR *full_name(const OBJECT_ATTRIBUTES *attr)
{
    const UNICODE_STRING *name = attr->ObjectName;
    if (!name || !name->Buffer) return NULL;
    if (!attr->RootDirectory) {
        WCHAR *copy = alloc_mem(name->Length + sizeof(WCHAR));
        if (copy) memcpy(copy, name->Buffer, name->Length);
        return copy;
    }
    // The root's name comes as a UNICODE_STRING with the text behind it.
    struct {
        UNICODE_STRING us;
        WCHAR text[2048];
    } *root = alloc_mem(sizeof(*root));
    ULONG len;
    WCHAR *joined = NULL;
    if (root && !NtQueryObject(attr->RootDirectory, (OBJECT_INFORMATION_CLASS)1, root, sizeof(*root), &len) &&
        root->us.Buffer && (joined = alloc_mem(root->us.Length + name->Length + 2 * sizeof(WCHAR)))) {
        int n = root->us.Length / (int)sizeof(WCHAR);
        memcpy(joined, root->us.Buffer, root->us.Length);
        if (name->Length) {
            if (joined[n - 1] != '\\') joined[n++] = '\\';
            memcpy(joined + n, name->Buffer, name->Length);
        }
    }
    free_mem(root);
    return joined;
}

static int length(const WCHAR *s)
{
    int n = 0;
    while (s[n]) n++;
    return n;
}

BOOL unix_path(const OBJECT_ATTRIBUTES *attr, char path[PATH_SIZE])
{
    if (!attr || !attr->ObjectName || !attr->ObjectName->Buffer) return FALSE;
    if (!attr->RootDirectory)
        return name_to_unix(attr->ObjectName->Buffer, attr->ObjectName->Length / (int)sizeof(WCHAR), path);
    WCHAR *name = full_name(attr);
    BOOL ok = name && name_to_unix(name, length(name), path);
    free_mem(name);
    return ok;
}

// modules is the NT name of the directory with Wine's modules, which the loader
// of ntdll.dll opens by its Linux path.
static WCHAR modules[1024];
static int modules_len;

void hide_linux(void)
{
    if (is_image(L"\\wineboot.exe")) return; // looks whether the prefix is up to date
    static const WCHAR variable[] = L"WINEDLLDIR0=";
    const SIZE_T head = ARRAYSIZE(variable) - 1;
    RTL_USER_PROCESS_PARAMETERS *params = NtCurrentTeb()->ProcessEnvironmentBlock->ProcessParameters;
    const WCHAR *entry = *(WCHAR **)((char *)params + 0x80); // Environment
    for (; entry && *entry; entry += length(entry) + 1) {
        if (memcmp(entry, variable, head * sizeof(WCHAR))) continue;
        int n = length(entry + head);
        if (n >= (int)ARRAYSIZE(modules)) return;
        memcpy(modules, entry + head, (SIZE_T)n * sizeof(WCHAR));
        modules_len = n;
    }
}

BOOL is_hidden(const OBJECT_ATTRIBUTES *attr)
{
    if (!modules_len || !attr || attr->RootDirectory || !attr->ObjectName) return FALSE;
    const WCHAR *name = attr->ObjectName->Buffer;
    int len = attr->ObjectName->Length / (int)sizeof(WCHAR);
    if (len < 8 || memcmp(name, L"\\??\\", 4 * sizeof(WCHAR)) || (len > 8 && name[8] != '\\')) return FALSE;
    for (int i = 0; i < 4; i++)
        if ((name[4 + i] | 0x20) != L"unix"[i]) return FALSE;
    return len <= modules_len || memcmp(name, modules, (SIZE_T)modules_len * sizeof(WCHAR)) || name[modules_len] != '\\';
}

BOOL handle_path(HANDLE handle, char path[PATH_SIZE])
{
    UNICODE_STRING empty = {0, 0, (WCHAR *)L""};
    OBJECT_ATTRIBUTES attr;
    InitializeObjectAttributes(&attr, &empty, 0, handle, NULL);
    return unix_path(&attr, path);
}
