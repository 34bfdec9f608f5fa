// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The client's end of the protocol of internal/netplane/tcpip/server.go. It uses Linux'
// sockets: this DLL is loaded by programs that have no Winsock.

#include "iphlpapi.h"

#include "../linux.h"

enum {
    SERVICE_PORT = 10272,
    PROTOCOL_VERSION = 1,
    MAX_ROWS = 1 << 16,
    LINUX_SOCK_STREAM_CLOEXEC = 1 | 02000000,
    LINUX_SOL_SOCKET = 1,
    LINUX_SO_RCVTIMEO = 20,
    LINUX_MSG_NOSIGNAL = 0x4000,
    TIMEOUT_SECONDS = 30,
};

static BOOL receive(long long fd, void *to, SIZE_T n)
{
    BYTE *p = to;
    while (n > 0) {
        long long got = linux_call(LINUX_read, fd, (long long)p, (long long)n, 0, 0);
        if (got == -LINUX_EINTR) continue;
        if (got <= 0) return FALSE;
        p += got, n -= (SIZE_T)got;
    }
    return TRUE;
}

static long long open_service(void)
{
    struct {
        UINT16 family, port;
        UINT32 address;
        BYTE zero[8];
    } to = {LINUX_AF_INET, (UINT16)(SERVICE_PORT >> 8 | (SERVICE_PORT & 0xff) << 8), 0x0100007f, {0}};
    struct {
        long long seconds, microseconds;
    } limit = {TIMEOUT_SECONDS, 0};
    long long fd = linux_call(LINUX_socket, LINUX_AF_INET, LINUX_SOCK_STREAM_CLOEXEC, 0, 0, 0), err;
    if (fd < 0) return -1;
    linux_call(LINUX_setsockopt, fd, LINUX_SOL_SOCKET, LINUX_SO_RCVTIMEO, (long long)&limit, sizeof(limit));
    do err = linux_call(LINUX_connect, fd, (long long)&to, sizeof(to), 0, 0);
    while (err == -LINUX_EINTR);
    if (err == 0) return fd;
    linux_call(LINUX_close, fd, 0, 0, 0, 0);
    return -1;
}

static DWORD exchange(long long fd, BYTE verb, const UINT32 words[REQUEST_WORDS], struct answer *out)
{
    struct {
        BYTE head[4];
        UINT32 words[REQUEST_WORDS];
    } q = {{PROTOCOL_VERSION, verb, 0, 0}, {0}};
    struct {
        BYTE head[4];
        UINT32 code, count;
    } a;
    if (words) memcpy(q.words, words, sizeof(q.words));
    if (linux_call(LINUX_sendto, fd, (long long)&q, sizeof(q), LINUX_MSG_NOSIGNAL, 0) != sizeof(q))
        return ERROR_GEN_FAILURE;
    if (!receive(fd, &a, sizeof(a)) || a.head[0] != PROTOCOL_VERSION || a.count > MAX_ROWS) return ERROR_GEN_FAILURE;
    if (a.code || !a.count) return a.code;
    out->rows = HeapAlloc(GetProcessHeap(), 0, a.count * sizeof(*out->rows));
    if (!out->rows) return ERROR_NOT_ENOUGH_MEMORY;
    if (!receive(fd, out->rows, a.count * sizeof(*out->rows))) {
        free_answer(out);
        return ERROR_GEN_FAILURE;
    }
    out->count = a.count;
    return NO_ERROR;
}

DWORD ask_service(BYTE verb, const UINT32 words[REQUEST_WORDS], struct answer *out)
{
    memset(out, 0, sizeof(*out));
    long long fd = open_service();
    if (fd < 0) return NO_SERVICE;
    DWORD err = exchange(fd, verb, words, out);
    linux_call(LINUX_close, fd, 0, 0, 0, 0);
    return err;
}

void free_answer(struct answer *a)
{
    if (a->rows) HeapFree(GetProcessHeap(), 0, a->rows);
    memset(a, 0, sizeof(*a));
}

BOOL has_adapter(const struct answer *adapters, NET_IFINDEX index)
{
    for (UINT32 i = 0; i < adapters->count; i++)
        if (adapters->rows[i].adapter.index == index) return TRUE;
    return FALSE;
}

DWORD tell_service(BYTE verb, const UINT32 words[REQUEST_WORDS])
{
    struct answer a;
    DWORD err = ask_service(verb, words, &a);
    free_answer(&a);
    // A container may not change its network.
    return err == NO_SERVICE ? ERROR_ACCESS_DENIED : err;
}
