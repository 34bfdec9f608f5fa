// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// What Windows says about the files of Linux that it has no files for: symbolic
// links, and the files of sockets.

#include "winemend.h"

LONGLONG nt_time(long long seconds, long long nanoseconds)
{
    // From 1601 to 1970, in units of 100 ns.
    return (seconds + 11644473600LL) * 10000000LL + nanoseconds / 100;
}

BOOL is_link(const char *path, struct link_info *info)
{
    info->socket = FALSE;
    info->st.nlink = 0;
    if (linux_call(LINUX_lstat, (long long)path, (long long)&info->st, 0, 0, 0)) return FALSE;
    if ((info->st.mode & LINUX_S_IFMT) != LINUX_S_IFLNK) return FALSE;
    char text[PATH_SIZE];
    long long n = linux_call(LINUX_readlink, (long long)path, (long long)text, sizeof(text) - 1, 0, 0);
    text[n > 0 ? n : 0] = 0;
    info->tag = is_junction(text) ? TAG_MOUNT_POINT : TAG_SYMLINK;
    struct linux_stat target;
    info->directory = !linux_call(LINUX_stat, (long long)path, (long long)&target, 0, 0, 0) &&
                      (target.mode & LINUX_S_IFMT) == LINUX_S_IFDIR;
    info->directory |= info->tag == TAG_MOUNT_POINT; // whether it leads to one or not
    return TRUE;
}

BOOL is_reparse(const char *path, struct link_info *info)
{
    info->socket = FALSE;
    if (is_link(path, info)) return TRUE;
    info->directory = FALSE;
    // is_link has filled st, or failed to. ws2_32.dll marks its files so.
    return info->socket = info->st.nlink && (info->st.mode & LINUX_S_IFMT) == LINUX_S_IFREG &&
                          (info->st.mode & LINUX_S_ISVTX);
}

ULONG link_attributes(const struct link_info *info)
{
    return FILE_ATTRIBUTE_REPARSE_POINT | (info->directory ? FILE_ATTRIBUTE_DIRECTORY : FILE_ATTRIBUTE_ARCHIVE);
}
