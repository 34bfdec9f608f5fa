// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// What a symbolic link holds. A relative target is the same on both systems but
// for the slashes. An absolute one ("C:\data") must not become a Unix path,
// because a container sees the files of a volume at another place than the host
// that made the link: it is written relative to the link, behind ".//", which
// means nothing to Linux and "was absolute" to us. So does "/." at its end: a junction.

#include "winemend.h"

#define ABSOLUTE_MARK ".//"
#define ABSOLUTE_MARK_LEN 3

static int len_of(const char *s)
{
    int n = 0;
    while (s[n]) n++;
    return n;
}

// physical is the path of an open directory without any link in it.
static int physical(const char *dir, char out[PATH_SIZE])
{
    long long fd = linux_call(LINUX_open, (long long)dir, LINUX_O_PATH | LINUX_O_CLOEXEC, 0, 0, 0);
    if (fd < 0) return -1;
    char name[32] = "/proc/self/fd/";
    int n = 14;
    char digits[20];
    int d = 0;
    long long v = fd;
    do digits[d++] = (char)('0' + v % 10);
    while ((v /= 10) != 0);
    while (d > 0) name[n++] = digits[--d];
    long long got = linux_call(LINUX_readlink, (long long)name, (long long)out, PATH_SIZE - 1, 0, 0);
    linux_call(LINUX_close, fd, 0, 0, 0, 0);
    if (got < 0) return -1;
    if (got == 1) got = 0; // "/": so that all results lack the slash at the end
    out[got] = 0;
    return (int)got;
}

static int physical_parent(const char *path, char out[PATH_SIZE])
{
    char dir[PATH_SIZE];
    int n = len_of(path);
    while (n > 1 && path[n - 1] != '/') n--;
    memcpy(dir, path, (SIZE_T)n);
    dir[n] = 0;
    return physical(dir, out);
}

static BOOL encode_absolute(const char *link, const WCHAR *target, char out[PATH_SIZE])
{
    WCHAR drive[] = L"\\??\\C:\\";
    drive[4] = target[0];
    UNICODE_STRING us = {sizeof(drive) - sizeof(WCHAR), sizeof(drive), drive};
    OBJECT_ATTRIBUTES attr;
    InitializeObjectAttributes(&attr, &us, OBJ_CASE_INSENSITIVE, NULL, NULL);
    char root[PATH_SIZE], parent[PATH_SIZE];
    if (!unix_path(&attr, out)) return FALSE;
    int root_len = physical(out, root), parent_len = physical_parent(link, parent);
    if (root_len < 0 || parent_len < 0) return FALSE;
    int n = 0;
    if (parent_len >= root_len && !memcmp(parent, root, (SIZE_T)root_len) &&
        (parent[root_len] == '/' || !parent[root_len])) {
        memcpy(out, ABSOLUTE_MARK, ABSOLUTE_MARK_LEN);
        n = ABSOLUTE_MARK_LEN;
        for (int i = root_len; parent[i]; i++) {
            if (parent[i] != '/') continue;
            if (n + 4 >= PATH_SIZE) return FALSE;
            memcpy(out + n, "../", 3);
            n += 3;
        }
    } else {
        memcpy(out, root, (SIZE_T)root_len); // another drive
        n = root_len;
        out[n++] = '/';
    }
    const WCHAR *rest = target + 2;
    while (*rest == '\\' || *rest == '/') rest++;
    int rest_len = 0;
    while (rest[rest_len]) rest_len++;
    if (!rest_len && n > 0 && out[n - 1] == '/' && n > ABSOLUTE_MARK_LEN) n--; // the drive itself
    int wrote = to_utf8(rest, rest_len, out + n, PATH_SIZE - n);
    if (wrote < 0) return FALSE;
    for (int i = n; out[i]; i++)
        if (out[i] == '\\') out[i] = '/';
    return TRUE;
}

// mark_junction makes the text of a link with an absolute target that of a junction.
BOOL mark_junction(char text[PATH_SIZE])
{
    int n = len_of(text);
    if (n + 3 > PATH_SIZE) return FALSE;
    if (text[n - 1] != '/') text[n++] = '/';
    text[n++] = '.';
    text[n] = 0;
    return TRUE;
}

BOOL is_junction(const char *text)
{
    int n = len_of(text);
    BOOL absolute = text[0] == '/' || (n > ABSOLUTE_MARK_LEN && !memcmp(text, ABSOLUTE_MARK, ABSOLUTE_MARK_LEN));
    return absolute && n > 2 && text[n - 2] == '/' && text[n - 1] == '.';
}

BOOL encode_target(const char *link, const WCHAR *target, char out[PATH_SIZE])
{
    // \\?\C:\x and \??\C:\x are C:\x.
    if (target[0] == '\\' && (target[1] == '\\' || target[1] == '?') && target[2] == '?' && target[3] == '\\') target += 4;
    if (target[0] && target[1] == ':') return encode_absolute(link, target, out);
    if (target[0] == '\\' && target[1] == '\\') return FALSE; // another machine
    if (target[0] == '\\' || target[0] == '/') {
        int n = 0;
        while (target[n]) n++;
        WCHAR *with_drive = alloc_mem(((SIZE_T)n + 3) * sizeof(WCHAR));
        if (!with_drive) return FALSE;
        with_drive[0] = 'C';
        with_drive[1] = ':';
        memcpy(with_drive + 2, target, (SIZE_T)n * sizeof(WCHAR));
        BOOL ok = encode_absolute(link, with_drive, out);
        free_mem(with_drive);
        return ok;
    }
    int n = 0;
    while (target[n]) n++;
    if (!n || to_utf8(target, n, out, PATH_SIZE) < 0) return FALSE;
    for (int i = 0; out[i]; i++)
        if (out[i] == '\\') out[i] = '/';
    return TRUE;
}

static BOOL to_dos(const char *path, WCHAR *out, int size)
{
    ULONG len = (ULONG)size;
    if (wine_unix_to_nt(path, out, &len)) return FALSE;
    // \??\C:\x, as Wine gives it, is C:\x to programs.
    int n = 0;
    while (out[n]) n++;
    if (n > 4 && out[0] == '\\' && out[1] == '?') memmove(out, out + 4, ((SIZE_T)n - 3) * sizeof(WCHAR));
    return TRUE;
}

BOOL decode_target(const char *link, const char *text, WCHAR *out, int size, BOOL *relative)
{
    *relative = FALSE;
    char plain[PATH_SIZE];
    if (is_junction(text)) {
        int len = len_of(text) - 1;
        memcpy(plain, text, (SIZE_T)len);
        if (len > ABSOLUTE_MARK_LEN) len--; // the slash
        plain[len] = 0;
        text = plain;
    }
    if (text[0] == '/') return to_dos(text, out, size);
    if (memcmp(text, ABSOLUTE_MARK, ABSOLUTE_MARK_LEN)) {
        *relative = TRUE;
        if (to_utf16(text, out, size) < 0) return FALSE;
        for (int i = 0; out[i]; i++)
            if (out[i] == '/') out[i] = '\\';
        return TRUE;
    }
    char path[PATH_SIZE];
    int n = physical_parent(link, path);
    if (n < 0) return FALSE;
    for (text += ABSOLUTE_MARK_LEN; text[0] == '.' && text[1] == '.' && (text[2] == '/' || !text[2]);) {
        while (n > 0 && path[n - 1] != '/') n--;
        if (n > 0) n--; // the slash
        text += text[2] ? 3 : 2;
    }
    int rest = len_of(text);
    if (n + rest + 2 > PATH_SIZE) return FALSE;
    path[n++] = '/';
    memcpy(path + n, text, (SIZE_T)rest + 1);
    return to_dos(path, out, size);
}
