// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Making symbolic links and telling where they lead.

#include "winemend.h"

// REPARSE_DATA_BUFFER of a symbolic link; a mount point lacks the flags.
struct reparse {
    ULONG tag;
    USHORT length, reserved;
    USHORT substitute_offset, substitute_length, print_offset, print_length;
    ULONG flags; // 1: relative
    WCHAR text[1];
};

NTSTATUS read_link(const char *path, WCHAR *target, int size, BOOL *relative)
{
    char text[PATH_SIZE];
    long long n = linux_call(LINUX_readlink, (long long)path, (long long)text, sizeof(text) - 1, 0, 0);
    if (n < 0) return status_of(n);
    text[n] = 0;
    return decode_target(path, text, target, size, relative) ? STATUS_SUCCESS : STATUS_OBJECT_NAME_INVALID;
}

NTSTATUS get_reparse(const char *path, void *out, ULONG len, ULONG *wrote)
{
    WCHAR target[2048];
    BOOL relative;
    struct link_info info;
    NTSTATUS status = read_link(path, target, ARRAYSIZE(target), &relative);
    if (status) return status;
    if (!is_link(path, &info)) return STATUS_NOT_A_REPARSE_POINT;
    ULONG print = 0;
    while (target[print]) print++;
    ULONG prefix = relative ? 0 : 4; // \??\ before an absolute one
    BOOL junction = info.tag == TAG_MOUNT_POINT;
    // Both names of a mount point end with a zero, which their lengths do not count.
    ULONG header = junction ? 16 : 20, zero = junction ? 1 : 0;
    ULONG need = header + (prefix + 2 * print + 2 * zero) * (ULONG)sizeof(WCHAR);
    if (len < need) return STATUS_BUFFER_TOO_SMALL;
    struct reparse *r = out;
    memset(r, 0, need);
    r->tag = info.tag;
    r->length = (USHORT)(need - 8);
    r->reserved = 0;
    r->substitute_offset = 0;
    r->substitute_length = (USHORT)((prefix + print) * sizeof(WCHAR));
    r->print_offset = (USHORT)(r->substitute_length + zero * sizeof(WCHAR));
    r->print_length = (USHORT)(print * sizeof(WCHAR));
    if (!junction) r->flags = relative ? 1 : 0;
    WCHAR *text = (WCHAR *)((char *)out + header);
    memcpy(text, L"\\??\\", prefix * sizeof(WCHAR));
    memcpy(text + prefix, target, print * sizeof(WCHAR));
    memcpy(text + prefix + print + zero, target, print * sizeof(WCHAR));
    *wrote = need;
    return STATUS_SUCCESS;
}

// set_reparse turns an empty directory or file into a link. Programs make junctions so.
NTSTATUS set_reparse(HANDLE handle, const void *in, ULONG len)
{
    const struct reparse *r = in;
    if (len < 16 || (r->tag != TAG_SYMLINK && r->tag != TAG_MOUNT_POINT)) return STATUS_IO_REPARSE_TAG_INVALID;
    ULONG header = r->tag == TAG_SYMLINK ? 20 : 16;
    if (len < header + r->substitute_offset + r->substitute_length) return STATUS_IO_REPARSE_DATA_INVALID;
    WCHAR *target = alloc_mem(r->substitute_length + sizeof(WCHAR));
    if (!target) return STATUS_NO_MEMORY;
    memcpy(target, (const char *)in + header + r->substitute_offset, r->substitute_length);
    char path[PATH_SIZE];
    NTSTATUS status = STATUS_NOT_SUPPORTED;
    struct linux_stat st;
    if (handle_path(handle, path) && !linux_call(LINUX_lstat, (long long)path, (long long)&st, 0, 0, 0)) {
        BOOL dir = (st.mode & LINUX_S_IFMT) == LINUX_S_IFDIR;
        if (!dir && st.size) {
            status = STATUS_IO_REPARSE_DATA_INVALID;
        } else {
            status = status_of(linux_call(dir ? LINUX_rmdir : LINUX_unlink, (long long)path, 0, 0, 0, 0));
            if (!status) status = make_link(path, target, r->tag == TAG_MOUNT_POINT);
        }
    }
    free_mem(target);
    return status;
}

NTSTATUS make_link(const char *path, const WCHAR *target, BOOL junction)
{
    char text[PATH_SIZE];
    struct linux_stat st;
    // Linux would say so too, but for a name that differs in case only.
    if (!linux_call(LINUX_lstat, (long long)path, (long long)&st, 0, 0, 0)) return STATUS_OBJECT_NAME_COLLISION;
    if (!encode_target(path, target, text)) return STATUS_NOT_SUPPORTED;
    if (junction && !mark_junction(text)) return STATUS_OBJECT_NAME_INVALID;
    return status_of(linux_call(LINUX_symlink, (long long)text, (long long)path, 0, 0, 0));
}

// kernelbase!CreateSymbolicLinkW. The flags choose between file and directory,
// which Linux does not tell apart.
BOOLEAN WINAPI mend_CreateSymbolicLinkW(const WCHAR *link, const WCHAR *target, DWORD flags)
{
    (void)flags;
    UNICODE_STRING name;
    NTSTATUS status = STATUS_INVALID_PARAMETER;
    if (link && target && target[0]) {
        status = STATUS_OBJECT_PATH_NOT_FOUND;
        if (RtlDosPathNameToNtPathName_U(link, &name, NULL, NULL)) {
            OBJECT_ATTRIBUTES attr;
            InitializeObjectAttributes(&attr, &name, OBJ_CASE_INSENSITIVE, NULL, NULL);
            char path[PATH_SIZE];
            if (unix_path(&attr, path)) status = make_link(path, target, FALSE);
            RtlFreeUnicodeString(&name);
        }
    }
    // A missing directory is another error for a program than a missing file.
    if (status == STATUS_OBJECT_NAME_NOT_FOUND) status = STATUS_OBJECT_PATH_NOT_FOUND;
    if (status) RtlSetLastWin32Error(RtlNtStatusToDosError(status));
    return status == STATUS_SUCCESS;
}
