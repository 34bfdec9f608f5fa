// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Linux system calls from a Windows DLL. Under Wine a PE module runs in an
// ordinary Linux process, so the syscall instruction reaches Linux. The DLLs
// here use that where Wine offers no way to a Linux feature (symbolic links).
// It stops working where Wine takes system calls of PE code for Windows' own
// (Syscall User Dispatch, newer than the supported versions;
// docs/adr/0041-one-dll-in-every-process.md).

#ifndef MULLION_LINUX_H
#define MULLION_LINUX_H

#include <stddef.h>

// Sockets: linux/socket.h, linux/net.h.
enum {
    LINUX_AF_INET = 2,
    LINUX_SOCK_DGRAM_CLOEXEC = 2 | 02000000,
};

// Numbers of x86-64, from linux/arch/x86/entry/syscalls/syscall_64.tbl.
enum {
    LINUX_read = 0,
    LINUX_write = 1,
    LINUX_open = 2,
    LINUX_close = 3,
    LINUX_stat = 4,
    LINUX_fstat = 5,
    LINUX_lstat = 6,
    LINUX_poll = 7,
    LINUX_dup2 = 33,
    LINUX_socket = 41,
    LINUX_connect = 42,
    LINUX_sendto = 44,
    LINUX_recvmsg = 47,
    LINUX_bind = 49,
    LINUX_setsockopt = 54,
    LINUX_rename = 82,
    LINUX_rmdir = 84,
    LINUX_unlink = 87,
    LINUX_symlink = 88,
    LINUX_readlink = 89,
    LINUX_chmod = 90,
    LINUX_getuid = 102,
    LINUX_setxattr = 188,
    LINUX_getxattr = 191,
    LINUX_getdents64 = 217,
    LINUX_statx = 332,
};

// Errors come back negated.
enum {
    LINUX_EPERM = 1,
    LINUX_ENOENT = 2,
    LINUX_EINTR = 4,
    LINUX_EACCES = 13,
    LINUX_EFAULT = 14,
    LINUX_EEXIST = 17,
    LINUX_ENOTDIR = 20,
    LINUX_EISDIR = 21,
    LINUX_ENOSPC = 28,
    LINUX_EROFS = 30,
    LINUX_ENAMETOOLONG = 36,
    LINUX_ENOTEMPTY = 39,
    LINUX_ELOOP = 40,
    LINUX_EOPNOTSUPP = 95,
};

static inline long long linux_call(long long number, long long a, long long b, long long c, long long d, long long e)
{
    register long long r10 __asm__("r10") = d;
    register long long r8 __asm__("r8") = e;
    long long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}

// struct stat of x86-64 Linux, asm-generic layout.
struct linux_stat {
    unsigned long long dev, ino, nlink;
    unsigned mode, uid, gid, pad0;
    unsigned long long rdev;
    long long size, blksize, blocks;
    long long atime, atime_nsec, mtime, mtime_nsec, ctime, ctime_nsec;
    long long unused[3];
};

#define LINUX_S_IFMT 0170000u
#define LINUX_S_IFIFO 0010000u
#define LINUX_S_IFDIR 0040000u
#define LINUX_S_IFLNK 0120000u
#define LINUX_S_IFREG 0100000u
#define LINUX_S_ISVTX 0001000u
#define LINUX_O_RDWR 02
#define LINUX_O_DIRECTORY 0200000
#define LINUX_O_CLOEXEC 02000000
#define LINUX_O_PATH 010000000

#endif
