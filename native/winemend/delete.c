// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// NtSetInformationFile's FileDispositionInformationEx and FileRenameInformationEx
// (Windows 10 1607), which Wine 8 answers with STATUS_NOT_IMPLEMENTED. Go's
// os.RemoveAll and os.Root need the first.

#include "winemend.h"

// link.c sets it when it hooks the call.
NTSTATUS(NTAPI *real_NtSetInformationFile)(HANDLE, IO_STATUS_BLOCK *, void *, ULONG, FILE_INFORMATION_CLASS);

// Flags of FILE_DISPOSITION_INFORMATION_EX, ntddk.h.
#define DISPOSITION_DELETE 0x01
#define DISPOSITION_POSIX 0x02
#define DISPOSITION_IGNORE_READONLY 0x10

static BOOL unknown(NTSTATUS status)
{
    return status == STATUS_NOT_IMPLEMENTED || status == STATUS_INVALID_INFO_CLASS || status == STATUS_NOT_SUPPORTED;
}

NTSTATUS set_disposition(HANDLE handle, IO_STATUS_BLOCK *io, ULONG flags)
{
    NTSTATUS status = real_NtSetInformationFile(handle, io, &flags, sizeof(flags), FileDispositionInformationEx_);
    if (!unknown(status)) return status; // a newer Wine

    BOOLEAN remove = (flags & DISPOSITION_DELETE) != 0;
    char path[PATH_SIZE];
    struct linux_stat st;
    BOOL named = remove && handle_path(handle, path) &&
                 !linux_call(LINUX_lstat, (long long)path, (long long)&st, 0, 0, 0);
    if (named && (flags & DISPOSITION_IGNORE_READONLY) && !(st.mode & 0222))
        linux_call(LINUX_chmod, (long long)path, (st.mode & 07777) | 0200, 0, 0, 0);
    status = real_NtSetInformationFile(handle, io, &remove, sizeof(remove), FileDispositionInformation);
    if (status || !named || !(flags & DISPOSITION_POSIX)) return status;

    // POSIX semantics: the name is gone now, not when the last handle is closed.
    // Wine's server looks at the inode before it removes the name once more.
    BOOL dir = (st.mode & LINUX_S_IFMT) == LINUX_S_IFDIR;
    long long result = linux_call(dir ? LINUX_rmdir : LINUX_unlink, (long long)path, 0, 0, 0, 0);
    if (result == -LINUX_ENOTEMPTY || result == -LINUX_EEXIST) {
        remove = FALSE;
        real_NtSetInformationFile(handle, io, &remove, sizeof(remove), FileDispositionInformation);
        return STATUS_DIRECTORY_NOT_EMPTY;
    }
    return STATUS_SUCCESS;
}

NTSTATUS rename_ex(HANDLE handle, IO_STATUS_BLOCK *io, const void *info, ULONG len)
{
    NTSTATUS status = real_NtSetInformationFile(handle, io, (void *)info, len, FileRenameInformationEx_);
    if (!unknown(status)) return status;
    // The same layout, but for a BOOLEAN in the place of the flags, whose lowest
    // bit (FILE_RENAME_REPLACE_IF_EXISTS) means the same.
    char *copy = alloc_mem(len);
    if (!copy) return STATUS_NO_MEMORY;
    memcpy(copy, info, len);
    ULONG flags = *(const ULONG *)info;
    *(ULONG *)copy = flags & 1;
    status = real_NtSetInformationFile(handle, io, copy, len, FileRenameInformation);
    free_mem(copy);
    return status;
}
