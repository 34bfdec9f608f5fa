// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The compressed size of files (FileCompressionInformation), which Wine does not know. No file is compressed, and the
// compressed size of one that is not is its allocated size:
// https://learn.microsoft.com/windows-hardware/drivers/ddi/ntifs/ns-ntifs-_file_compression_information, read 2026-11.
// workerd asks for the space that a file takes so.

#include "winemend.h"

struct compression {
    LARGE_INTEGER size;
    USHORT format; // COMPRESSION_FORMAT_NONE
    UCHAR shifts[3], reserved[3];
};

NTSTATUS query_compression(query_file query, HANDLE handle, IO_STATUS_BLOCK *io, void *out, ULONG len)
{
    FILE_STANDARD_INFORMATION standard;
    if (len < sizeof(struct compression)) return STATUS_INFO_LENGTH_MISMATCH;
    NTSTATUS status = query(handle, io, &standard, sizeof(standard), FileStandardInformation);
    if (status) return status;
    const struct compression c = {.size = standard.AllocationSize};
    memcpy(out, &c, sizeof(c));
    io->Information = sizeof(c);
    return STATUS_SUCCESS;
}
