// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Programs that do not start: those of Linux, which Wine's CreateProcess would start, and those of other processors.
// Wine takes 32-bit programs for its own and starts a process for them, which ends with a message of Wine because the
// runtime has no 32-bit libraries. mullion-init refuses the same files (internal/wine/launch).

#include "winemend.h"

// Where a file says where its PE header is, and the place of the machine in the header.
enum { PE_OFFSET = 0x3c, PE_MACHINE = 4, PE_SIZE = 6, MACHINE_AMD64 = 0x8664 };

// RtlNtStatusToDosError makes ERROR_EXE_MACHINE_TYPE_MISMATCH of it.
#define STATUS_OTHER_MACHINE ((NTSTATUS)0x800700d8)

static BOOL read_at(long long fd, void *to, SIZE_T size, unsigned at)
{
    enum { LINUX_pread64 = 17 };
    return linux_call(LINUX_pread64, fd, (long long)to, (long long)size, (long long)at, 0) == (long long)size;
}

static NTSTATUS check_headers(long long fd)
{
    unsigned char dos[PE_OFFSET + 4], pe[PE_SIZE];
    unsigned at;
    if (!read_at(fd, dos, 2, 0) || memcmp(dos, "MZ", 2)) return STATUS_INVALID_IMAGE_NOT_MZ;
    if (!read_at(fd, dos, sizeof(dos), 0)) return STATUS_SUCCESS;
    memcpy(&at, dos + PE_OFFSET, sizeof(at));
    if (!read_at(fd, pe, sizeof(pe), at) || memcmp(pe, "PE\0", 4)) return STATUS_OTHER_MACHINE;
    return (pe[PE_MACHINE] | pe[PE_MACHINE + 1] << 8) == MACHINE_AMD64 ? STATUS_SUCCESS : STATUS_OTHER_MACHINE;
}

// check_image returns the error for a file that is not a 64-bit program. Wine finds other faults.
static NTSTATUS check_image(const OBJECT_ATTRIBUTES *attr)
{
    char path[PATH_SIZE];
    long long fd = unix_path(attr, path) ? linux_call(LINUX_open, (long long)path, LINUX_O_CLOEXEC, 0, 0, 0) : -1;
    if (fd < 0) return STATUS_SUCCESS;
    NTSTATUS status = check_headers(fd);
    linux_call(LINUX_close, fd, 0, 0, 0, 0);
    return status;
}

// A process of Wine writes to about so much memory before its program begins.
#define START_BYTES (3 << 20)

struct attribute_list { // PS_ATTRIBUTE_LIST
    SIZE_T total;
    struct {
        ULONG_PTR attribute;
        SIZE_T size;
        void *value;
        SIZE_T *returned;
    } attributes[];
};

static NTSTATUS(NTAPI *real_NtCreateUserProcess)(HANDLE *, HANDLE *, ACCESS_MASK, ACCESS_MASK, void *, void *, ULONG, ULONG,
                                                 void *, void *, struct attribute_list *);

static NTSTATUS NTAPI mend_NtCreateUserProcess(HANDLE *process, HANDLE *thread, ACCESS_MASK process_access,
                                               ACCESS_MASK thread_access, void *process_attr, void *thread_attr,
                                               ULONG process_flags, ULONG thread_flags, void *params, void *info,
                                               struct attribute_list *list)
{
    enum { IMAGE_NAME = 0x20005 };
    for (SIZE_T i = 0; i < (list->total - sizeof(list->total)) / sizeof(list->attributes[0]); i++) {
        if (list->attributes[i].attribute != IMAGE_NAME) continue;
        USHORT length = (USHORT)list->attributes[i].size;
        UNICODE_STRING name = {length, length, list->attributes[i].value};
        OBJECT_ATTRIBUTES attr;
        InitializeObjectAttributes(&attr, &name, OBJ_CASE_INSENSITIVE, NULL, NULL);
        NTSTATUS status = check_image(&attr);
        if (status) return status;
    }
    if (!commit_allowed(START_BYTES)) return STATUS_COMMITMENT_LIMIT;
    return real_NtCreateUserProcess(process, thread, process_access, thread_access, process_attr, thread_attr,
                                    process_flags, thread_flags, params, info, list);
}

BOOL mend_programs(void)
{
    real_NtCreateUserProcess = hook_syscall("NtCreateUserProcess", (void *)mend_NtCreateUserProcess);
    return real_NtCreateUserProcess != NULL;
}
