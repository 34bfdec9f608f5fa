// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// GetFileAttributes and GetFileAttributesEx speak of a link itself, not of what
// it leads to; Wine follows it. The file of a socket is a reparse point too.

#include "winemend.h"

static NTSTATUS(NTAPI *real_NtQueryAttributesFile)(const OBJECT_ATTRIBUTES *, FILE_BASIC_INFORMATION *);
static NTSTATUS(NTAPI *real_NtQueryFullAttributesFile)(const OBJECT_ATTRIBUTES *, FILE_NETWORK_OPEN_INFORMATION *);

static BOOL find_link(const OBJECT_ATTRIBUTES *attr, struct link_info *info)
{
    char path[PATH_SIZE];
    return unix_path(attr, path) && is_reparse(path, info);
}

static NTSTATUS NTAPI mend_NtQueryAttributesFile(const OBJECT_ATTRIBUTES *attr, FILE_BASIC_INFORMATION *out)
{
    struct link_info info;
    struct by_drive on;
    if (name_by_drive(attr, &on)) {
        NTSTATUS status = mend_NtQueryAttributesFile(&on.attr, out);
        free_mem(on.buffer);
        return status;
    }
    if (is_hidden(attr)) return STATUS_OBJECT_PATH_NOT_FOUND;
    if (!find_link(attr, &info)) return real_NtQueryAttributesFile(attr, out);
    out->CreationTime.QuadPart = out->ChangeTime.QuadPart = nt_time(info.st.ctime, info.st.ctime_nsec);
    out->LastAccessTime.QuadPart = nt_time(info.st.atime, info.st.atime_nsec);
    out->LastWriteTime.QuadPart = nt_time(info.st.mtime, info.st.mtime_nsec);
    out->FileAttributes = link_attributes(&info);
    return STATUS_SUCCESS;
}

static NTSTATUS NTAPI mend_NtQueryFullAttributesFile(const OBJECT_ATTRIBUTES *attr, FILE_NETWORK_OPEN_INFORMATION *out)
{
    struct link_info info;
    struct by_drive on;
    if (name_by_drive(attr, &on)) {
        NTSTATUS status = mend_NtQueryFullAttributesFile(&on.attr, out);
        free_mem(on.buffer);
        return status;
    }
    if (is_hidden(attr)) return STATUS_OBJECT_PATH_NOT_FOUND;
    if (!find_link(attr, &info)) return real_NtQueryFullAttributesFile(attr, out);
    out->CreationTime.QuadPart = out->ChangeTime.QuadPart = nt_time(info.st.ctime, info.st.ctime_nsec);
    out->LastAccessTime.QuadPart = nt_time(info.st.atime, info.st.atime_nsec);
    out->LastWriteTime.QuadPart = nt_time(info.st.mtime, info.st.mtime_nsec);
    out->AllocationSize.QuadPart = out->EndOfFile.QuadPart = 0;
    out->FileAttributes = link_attributes(&info);
    return STATUS_SUCCESS;
}

BOOL mend_attributes(void)
{
    real_NtQueryAttributesFile = hook_syscall("NtQueryAttributesFile", (void *)mend_NtQueryAttributesFile);
    real_NtQueryFullAttributesFile = hook_syscall("NtQueryFullAttributesFile", (void *)mend_NtQueryFullAttributesFile);
    return real_NtQueryAttributesFile && real_NtQueryFullAttributesFile;
}
