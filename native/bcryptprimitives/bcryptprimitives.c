// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// bcryptprimitives.dll for Wine versions that lack it (8 and 9): the random
// source of the Go runtime and of Rust's standard library. Windows has had
// ProcessPrng since Windows 10; it cannot fail there.

#include "../linux.h"

// ProcessPrng fills buf with random bytes from the kernel. Asking Linux
// directly instead of advapi32!SystemFunction036 keeps advapi32 and the seven
// modules behind it out of every Go process (about 6 ms of its start).
__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *buf, size_t len)
{
    while (len > 0) {
        // getrandom never returns less than asked for up to 256 bytes.
        size_t part = len < 256 ? len : 256;
        long long got = linux_call(LINUX_getrandom, (long long)buf, (long long)part, 0, 0, 0);
        if (got == -LINUX_EINTR) continue;
        if (got <= 0) __builtin_trap(); // better dead than predictable
        buf += got;
        len -= (size_t)got;
    }
    return 1;
}

int __stdcall DllMain(void *module, unsigned reason, void *reserved)
{
    (void)module;
    (void)reason;
    (void)reserved;
    return 1;
}
