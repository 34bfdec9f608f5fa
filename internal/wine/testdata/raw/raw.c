// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// A Windows program that talks to Linux behind Wine's back: PE code runs in a
// Linux process, and its syscall instruction reaches the kernel. It tries what an
// attacker would, and prints what worked. argv[1] is a file of the machine.

#include <stdio.h>
#include <string.h>

#include "../../../../native/linux.h"

static int tries;

static void attempt(const char *what, long long result)
{
    tries++;
    if (result >= 0) printf("worked: %s (%lld)\n", what, result);
}

static void try_open(const char *path)
{
    char buf[64];
    long long fd = linux_call(LINUX_open, (long long)path, 0, 0, 0, 0);
    if (fd >= 0 && linux_call(LINUX_read, fd, (long long)buf, sizeof(buf), 0, 0) > 0) attempt(path, fd);
    else attempt(path, -1);
}

int main(int argc, char **argv)
{
    char path[4096];
    if (argc < 2) return 2;
    try_open(argv[1]);
    snprintf(path, sizeof(path), "/proc/1/root%s", argv[1]);
    // /proc/1 is the container's own init: its root must not be the machine's.
    try_open(path);
    snprintf(path, sizeof(path), "/../../../../../../../../..%s", argv[1]);
    try_open(path);
    try_open("/etc/shadow");
    try_open("/proc/kcore");
    try_open("/proc/sysrq-trigger");
    try_open("/sys/kernel/security/lsm");
    try_open("/dev/mem");
    try_open("/dev/vda");
    try_open("/dev/sda");
    attempt("mount(2) of proc", linux_call(165, (long long)"proc", (long long)"/run", (long long)"proc", 0, 0));
    attempt("mount(2) of tmpfs", linux_call(165, (long long)"tmpfs", (long long)"/run", (long long)"tmpfs", 0, 0));
    attempt("umount2", linux_call(166, (long long)"/proc", 2, 0, 0, 0));
    attempt("pivot_root", linux_call(155, (long long)"/run", (long long)"/run", 0, 0, 0));
    attempt("chroot", linux_call(161, (long long)"/run", 0, 0, 0, 0));
    attempt("setuid(0)", linux_call(105, 0, 0, 0, 0, 0));
    attempt("setgid(0)", linux_call(106, 0, 0, 0, 0, 0));
    attempt("unshare(user)", linux_call(272, 0x10000000, 0, 0, 0, 0));
    attempt("unshare(mount)", linux_call(272, 0x00020000, 0, 0, 0, 0));
    attempt("setns", linux_call(308, 0, 0, 0, 0, 0));
    attempt("bpf", linux_call(321, 0, 0, 0, 0, 0));
    attempt("perf_event_open", linux_call(298, 0, 0, -1, -1, 0));
    attempt("init_module", linux_call(175, 0, 0, 0, 0, 0));
    attempt("kexec_load", linux_call(246, 0, 0, 0, 0, 0));
    attempt("keyctl", linux_call(250, 0, -3, 0, 0, 0));
    attempt("io_uring_setup", linux_call(425, 1, (long long)path, 0, 0, 0));
    attempt("userfaultfd", linux_call(323, 0, 0, 0, 0, 0));
    attempt("raw socket", linux_call(41, 2, 3, 1, 0, 0));
    attempt("packet socket", linux_call(41, 17, 3, 0, 0, 0));
    attempt("mknod of a disk", linux_call(133, (long long)"/run/mullion/disk", 0060600, 0xfe00, 0, 0));
    attempt("sethostname", linux_call(170, (long long)"evil", 4, 0, 0, 0));
    attempt("settimeofday", linux_call(164, (long long)path, 0, 0, 0, 0));
    attempt("reboot", linux_call(169, 0, 0, 0, 0, 0));
    // Processes of the machine have no number here; every number that has one
    // belongs to the container's user.
    int foreign = 0;
    for (int pid = 1; pid < 400; pid++) {
        struct linux_stat st;
        char proc[64];
        snprintf(proc, sizeof(proc), "/proc/%d", pid);
        if (!linux_call(LINUX_stat, (long long)proc, (long long)&st, 0, 0, 0) && st.uid != 64000) foreign++;
    }
    attempt("processes of others are visible", foreign ? foreign : -1);
    printf("tried %d\n", tries);
    return 0;
}
