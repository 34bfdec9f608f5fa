// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The memory limit of a container. On Windows it limits what the processes of a job have committed: a call that would
// commit more fails with STATUS_COMMITMENT_LIMIT, and the program goes on. Linux lets a program commit any amount, and
// kills it when it has used too much of it. So calls are refused here before that happens. The CRI server writes the
// limit to a file (internal/cri/server, memory_limit.go), and changes it there.
//
// Linux has two figures for a process: the private memory that it has written to, and that it may write to. The second
// one includes all committed memory, but also memory that Windows does not count: the stacks of threads, which Wine
// commits as a whole, and Wine's tables. Without these it is the process's own part here, or the first figure if that is
// larger. The other processes of the container count with the first figure, because their stacks and tables cannot be
// told apart from outside.
//
// A measurement takes about 7 µs for each process of the container, so not each call makes one: a process may commit a
// share of the free memory before it measures again.

#include "winemend.h"

NTSYSAPI NTSTATUS NTAPI NtQueryVirtualMemory(HANDLE, const void *, ULONG, void *, SIZE_T, SIZE_T *);

#define LIMIT_FILE "/run/mullion/.memory"

enum { LINUX_getpid_ = 39 };

#define PAGE_BYTES 4096LL
#define MIB (1LL << 20)

// Without a limit, a process looks for one after so many bytes, because the container may get one.
#define UNLIMITED_STEP (64 * MIB)
// The smallest share. Each process may exceed the limit by it, at the expense of kept_back.
#define SMALLEST_STEP (MIB / 4)
// Each thread has a second stack, for Wine itself (kernel_stack_size in dlls/ntdll/unix/unix_private.h).
#define UNIX_STACK MIB

static LONG64 allowance = MAXLONGLONG; // bytes that this process may commit without a measurement
static LONG64 stacks;                  // bytes of all threads' stacks
static LONG64 tables;                  // other writable bytes that are not committed, at the last look

struct usage {
    LONG64 written, writable; // bytes
};

static long long read_file(const char *path, char *text, SIZE_T size)
{
    long long fd = linux_call(LINUX_open, (long long)path, LINUX_O_CLOEXEC, 0, 0, 0);
    if (fd < 0) return fd;
    long long n = linux_call(LINUX_read, fd, (long long)text, (long long)size - 1, 0, 0);
    linux_call(LINUX_close, fd, 0, 0, 0, 0);
    text[n > 0 ? n : 0] = 0;
    return n;
}

static LONG64 take_number(const char **text)
{
    LONG64 n = 0;
    while (**text == ' ') ++*text;
    for (; **text >= '0' && **text <= '9'; ++*text) n = n * 10 + (**text - '0');
    return n;
}

// measure_process reads the figures of a process. Those of one that has just ended are 0.
static struct usage measure_process(const char *id)
{
    char path[32] = "/proc/", text[128];
    SIZE_T n = 6;
    const char *at = text;
    struct usage u = {0, 0};
    while (*id && n < sizeof(path) - sizeof("/statm")) path[n++] = *id++;
    memcpy(path + n, "/statm", sizeof("/statm"));
    if (read_file(path, text, sizeof(text)) <= 0) return u;
    take_number(&at); // size
    const LONG64 resident = take_number(&at), shared = take_number(&at);
    take_number(&at); // text
    take_number(&at); // lib
    u.written = (resident - shared) * PAGE_BYTES;
    u.writable = take_number(&at) * PAGE_BYTES;
    return u;
}

// look_closely finds out how much of the writable memory is not committed. It asks Wine about each region, which takes
// milliseconds if there are thousands.
static void look_closely(const struct usage *self)
{
    MEMORY_BASIC_INFORMATION info;
    LONG64 committed = 0;
    for (const char *at = NULL; !NtQueryVirtualMemory(NtCurrentProcess(), at, 0, &info, sizeof(info), NULL);
         at = (const char *)info.BaseAddress + info.RegionSize)
        if (info.State == MEM_COMMIT && info.Type == MEM_PRIVATE) committed += (LONG64)info.RegionSize;
    InterlockedExchange64(&tables, self->writable - committed);
}

static LONG64 own_part(const struct usage *self)
{
    const LONG64 committed = self->writable - tables - stacks;
    return committed > self->written ? committed : self->written;
}

// measure_others adds up the other processes' written memory, and returns their number.
static LONG64 measure_others(LONG64 *written)
{
    enum { NAME = 19 };
    char entries[2048]; // on the stack: the caller may hold the lock of the heap
    const LONG64 id = linux_call(LINUX_getpid_, 0, 0, 0, 0, 0);
    long long fd = linux_call(LINUX_open, (long long)"/proc", LINUX_O_DIRECTORY | LINUX_O_CLOEXEC, 0, 0, 0), got;
    LONG64 count = 0;
    *written = 0;
    while (fd >= 0 && (got = linux_call(LINUX_getdents64, fd, (long long)entries, sizeof(entries), 0, 0)) > 0) {
        for (long long at = 0; at < got;) {
            const char *name = entries + at + NAME, *end = name;
            unsigned short size;
            memcpy(&size, entries + at + 16, sizeof(size));
            at += size;
            if (*name < '0' || *name > '9' || take_number(&end) == id) continue;
            *written += measure_process(name).written;
            count++;
        }
    }
    if (fd >= 0) linux_call(LINUX_close, fd, 0, 0, 0, 0);
    return count;
}

// kept_back returns the part of the limit for the kernel, for Wine and for the start of a process such as a probe. In a
// container of Windows the services of the system need more than that.
static LONG64 kept_back(LONG64 limit)
{
    const LONG64 some = limit / 8 < 16 * MIB ? limit / 8 : 16 * MIB;
    return some + limit / 256; // page tables have an entry of 8 bytes for each page, and Wine has one of 1 byte
}

// fits measures, and reports whether size bytes more are within the limit.
static BOOL fits(LONG64 size)
{
    char text[24];
    const char *at = text;
    LONG64 others;
    const LONG64 limit = read_file(LIMIT_FILE, text, sizeof(text)) > 0 ? take_number(&at) : 0;
    if (!limit) {
        InterlockedExchange64(&allowance, UNLIMITED_STEP);
        return TRUE;
    }
    const struct usage self = measure_process("self");
    const LONG64 count = measure_others(&others), room = limit - kept_back(limit) - others - size;
    if (own_part(&self) > room && self.written <= room) look_closely(&self);
    const LONG64 free = room - own_part(&self);
    // If all processes do the same, half of it is still free.
    const LONG64 step = free / (2 * (count + 1));
    InterlockedExchange64(&allowance, free < 0 ? 0 : step > SMALLEST_STEP ? step : SMALLEST_STEP);
    return free >= 0;
}

BOOL commit_allowed(SIZE_T size)
{
    // A size that exceeds every limit must not overflow.
    const LONG64 n = size < ((SIZE_T)1 << 47) ? (LONG64)size : (LONG64)1 << 47;
    return !n || InterlockedExchangeAdd64(&allowance, -n) >= n || fits(n);
}

// uncommitted returns how much of a range is not committed yet.
static SIZE_T uncommitted(HANDLE process, const char *from, SIZE_T size)
{
    MEMORY_BASIC_INFORMATION info;
    SIZE_T n = 0, part;
    for (const char *end = from + size; from < end; from += part) {
        if (NtQueryVirtualMemory(process, from, 0, &info, sizeof(info), NULL)) break;
        part = (SIZE_T)((const char *)info.BaseAddress + info.RegionSize - from);
        if (part > (SIZE_T)(end - from)) part = (SIZE_T)(end - from);
        if (info.State != MEM_COMMIT) n += part;
    }
    return n;
}

// refuses reports whether an allocation would exceed the limit. Reserved memory costs Wine a byte for each page.
static BOOL refuses(HANDLE process, void **base, const SIZE_T *size, ULONG type)
{
    if (commit_allowed(type & MEM_COMMIT ? *size : *size / PAGE_BYTES)) return FALSE;
    return !*base || type & MEM_RESERVE || !commit_allowed(uncommitted(process, *base, *size));
}

static NTSTATUS(NTAPI *real_NtAllocateVirtualMemory)(HANDLE, void **, ULONG_PTR, SIZE_T *, ULONG, ULONG);

static NTSTATUS NTAPI mend_NtAllocateVirtualMemory(HANDLE process, void **base, ULONG_PTR zero_bits, SIZE_T *size,
                                                   ULONG type, ULONG protect)
{
    if (refuses(process, base, size, type)) return STATUS_COMMITMENT_LIMIT;
    return real_NtAllocateVirtualMemory(process, base, zero_bits, size, type, protect);
}

static NTSTATUS(NTAPI *real_NtAllocateVirtualMemoryEx)(HANDLE, void **, SIZE_T *, ULONG, ULONG, void *, ULONG);

static NTSTATUS NTAPI mend_NtAllocateVirtualMemoryEx(HANDLE process, void **base, SIZE_T *size, ULONG type,
                                                     ULONG protect, void *parameters, ULONG count)
{
    if (refuses(process, base, size, type)) return STATUS_COMMITMENT_LIMIT;
    return real_NtAllocateVirtualMemoryEx(process, base, size, type, protect, parameters, count);
}

static NTSTATUS(NTAPI *real_NtCreateSection)(HANDLE *, ACCESS_MASK, const OBJECT_ATTRIBUTES *, const LARGE_INTEGER *,
                                             ULONG, ULONG, HANDLE);

// On Windows, sections of the paging file are committed memory. Here they are files of Wine's on the disk, and count
// only when they are made.
static NTSTATUS NTAPI mend_NtCreateSection(HANDLE *handle, ACCESS_MASK access, const OBJECT_ATTRIBUTES *attr,
                                           const LARGE_INTEGER *size, ULONG protect, ULONG flags, HANDLE file)
{
    if (!file && size && !(flags & SEC_RESERVE) && !commit_allowed((SIZE_T)size->QuadPart)) {
        *handle = NULL;
        return STATUS_COMMITMENT_LIMIT;
    }
    return real_NtCreateSection(handle, access, attr, size, protect, flags, file);
}

void commit_thread(BOOL begins)
{
    const NT_TIB *tib = (const NT_TIB *)NtCurrentTeb();
    const char *lowest = *(char **)((char *)NtCurrentTeb() + TEB_DEALLOCATION_STACK);
    const LONG64 n = (const char *)tib->StackBase - lowest + UNIX_STACK;
    InterlockedExchangeAdd64(&stacks, begins ? n : -n);
}

BOOL mend_commits(void)
{
    static const WCHAR *const services[] = {L"\\wineboot.exe", L"\\services.exe", L"\\winedevice.exe", L"\\conhost.exe"};
    if (!identity_known()) return TRUE;
    // Wine's own services serve the other programs also when these have used up the memory.
    for (SIZE_T i = 0; i < ARRAYSIZE(services); i++)
        if (is_image(services[i])) return TRUE;
    commit_thread(TRUE);
    tables = measure_process("self").writable - stacks;
    allowance = SMALLEST_STEP;
    real_NtAllocateVirtualMemory = hook_syscall("NtAllocateVirtualMemory", (void *)mend_NtAllocateVirtualMemory);
    real_NtAllocateVirtualMemoryEx = hook_syscall("NtAllocateVirtualMemoryEx", (void *)mend_NtAllocateVirtualMemoryEx);
    real_NtCreateSection = hook_syscall("NtCreateSection", (void *)mend_NtCreateSection);
    return real_NtAllocateVirtualMemory && real_NtAllocateVirtualMemoryEx && real_NtCreateSection;
}
