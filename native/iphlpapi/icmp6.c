// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Echo requests of IPv6, which Wine does not send (dlls/iphlpapi/iphlpapi_main.c, Icmp6SendEcho2). They go through
// Linux' own sockets for echo requests (icmp(7)), as Wine's go in IPv4. The rules are those of
// https://learn.microsoft.com/windows/win32/api/icmpapi/nf-icmpapi-icmp6sendecho2, read 2026-11.

#include "iphlpapi.h"

#include <ipexport.h>

#include "../linux.h"

enum {
    LINUX_AF_INET6 = 10,
    LINUX_IPPROTO_ICMPV6 = 58,
    LINUX_SOL_IPV6 = 41,
    LINUX_IPV6_UNICAST_HOPS = 16,
    LINUX_IPV6_RECVERR = 25,
    LINUX_MSG_ERRQUEUE = 0x2000,
    LINUX_MSG_DONTWAIT = 0x40,
    LINUX_POLLIN = 1,
    LINUX_POLLERR = 8,
    LINUX_ORIGIN_ICMP6 = 3, // SO_EE_ORIGIN_ICMP6
};

// Types of RFC 4443.
enum {
    UNREACHABLE = 1,
    TOO_BIG = 2,
    TIME_EXCEEDED = 3,
    PARAMETER_PROBLEM = 4,
    ECHO_REQUEST = 128,
    ECHO_REPLY = 129,
    ECHO_HEADER = 8, // bytes
};

// address6 is sockaddr_in6 of Linux: it differs from Windows' in the number of the family.
struct address6 {
    UINT16 family, port;
    UINT32 flow;
    BYTE address[16];
    UINT32 scope;
};

struct part {
    void *base;
    SIZE_T size;
};

struct message {
    struct address6 *name;
    UINT32 name_size, pad0;
    struct part *parts;
    SIZE_T part_count;
    void *control;
    SIZE_T control_size;
    INT32 flags, pad1;
};

// control is the ancillary data of an entry of the error queue: struct sock_extended_err and
// the address of the router or host that sent the error.
struct control {
    SIZE_T size;
    INT32 level, type;
    UINT32 number;
    BYTE origin, kind, code, pad;
    UINT32 info, data;
    struct address6 offender;
};

// reply is ICMPV6_ECHO_REPLY of ipexport.h, which mingw's headers lack.
struct reply {
    struct __attribute__((packed)) {
        UINT16 port;
        UINT32 flow;
        BYTE address[16];
        UINT32 scope;
    } from;
    UINT32 status;
    UINT32 time; // ms
};

struct echo {
    long long fd;
    BYTE *packet; // the request and then the reply
    SIZE_T size;
    struct address6 from;
    ULONG status;
};

static void to_linux(struct address6 *to, const struct sockaddr_in6 *from)
{
    memset(to, 0, sizeof(*to));
    to->family = LINUX_AF_INET6;
    memcpy(to->address, &from->sin6_addr, sizeof(to->address));
    to->scope = from->sin6_scope_id;
}

// status_of returns the status for an error message: ipexport.h.
static ULONG status_of(BYTE type, BYTE code)
{
    switch (type) {
    case UNREACHABLE:
        switch (code) {
        case 0: return IP_DEST_NO_ROUTE;
        case 1: return IP_DEST_PROHIBITED;
        case 2: return IP_DEST_SCOPE_MISMATCH;
        case 3: return IP_DEST_ADDR_UNREACHABLE;
        case 4: return IP_DEST_PORT_UNREACHABLE;
        }
        return IP_DEST_UNREACHABLE;
    case TOO_BIG: return IP_PACKET_TOO_BIG;
    case TIME_EXCEEDED: return code == 0 ? IP_HOP_LIMIT_EXCEEDED : IP_REASSEMBLY_TIME_EXCEEDED;
    case PARAMETER_PROBLEM: return IP_PARAMETER_PROBLEM;
    }
    return IP_GENERAL_FAILURE;
}

static long long receive_message(struct echo *e, struct control *control, int flags)
{
    struct part part = {e->packet, e->size};
    struct message m = {.name = &e->from, .name_size = sizeof(e->from), .parts = &part, .part_count = 1,
                        .control = control, .control_size = control ? sizeof(*control) : 0};
    return linux_call(LINUX_recvmsg, e->fd, (long long)&m, flags | LINUX_MSG_DONTWAIT, 0, 0);
}

// answered reads what has arrived, and reports whether it ends the wait.
static BOOL answered(struct echo *e)
{
    struct control c = {0};
    if (receive_message(e, &c, LINUX_MSG_ERRQUEUE) >= 0 && c.level == LINUX_SOL_IPV6 && c.type == LINUX_IPV6_RECVERR) {
        e->status = c.origin == LINUX_ORIGIN_ICMP6 ? status_of(c.kind, c.code) : IP_GENERAL_FAILURE;
        e->from = c.offender;
        return TRUE;
    }
    long long n = receive_message(e, NULL, 0);
    if (n < ECHO_HEADER || e->packet[0] != ECHO_REPLY) return FALSE;
    e->size = (SIZE_T)n;
    e->status = IP_SUCCESS;
    return TRUE;
}

// exchange sends the request and waits. It returns FALSE if nothing came in time or nothing
// could be sent; `status` says which.
static BOOL exchange(struct echo *e, const struct sockaddr_in6 *source, const struct sockaddr_in6 *destination,
                     int hops, DWORD timeout)
{
    struct address6 own, to;
    const int on = 1;
    to_linux(&to, destination);
    to_linux(&own, source);
    linux_call(LINUX_setsockopt, e->fd, LINUX_SOL_IPV6, LINUX_IPV6_RECVERR, (long long)&on, sizeof(on));
    if (hops) linux_call(LINUX_setsockopt, e->fd, LINUX_SOL_IPV6, LINUX_IPV6_UNICAST_HOPS, (long long)&hops, sizeof(hops));
    e->status = IP_GENERAL_FAILURE;
    static const BYTE any[16];
    BOOL bound = RtlCompareMemory(own.address, any, sizeof(any)) != sizeof(any);
    if (bound && linux_call(LINUX_bind, e->fd, (long long)&own, sizeof(own), 0, 0) < 0) return FALSE;
    if (linux_call(LINUX_connect, e->fd, (long long)&to, sizeof(to), 0, 0) < 0) return FALSE;
    if (linux_call(LINUX_write, e->fd, (long long)e->packet, (long long)e->size, 0, 0) < 0) return FALSE;
    e->status = IP_REQ_TIMED_OUT;
    for (ULONGLONG end = GetTickCount64() + timeout, now; (now = GetTickCount64()) <= end;) {
        struct {
            INT32 fd;
            INT16 events, got;
        } wait = {(INT32)e->fd, LINUX_POLLIN, 0};
        ULONGLONG left = end - now;
        long long n = linux_call(LINUX_poll, (long long)&wait, 1, left < MAXINT32 ? (long long)left : MAXINT32, 0, 0);
        if (n > 0 && wait.got & (LINUX_POLLIN | LINUX_POLLERR) && answered(e)) return TRUE;
        if (n == 0 || (n < 0 && n != -LINUX_EINTR)) break;
    }
    return FALSE;
}

// IcmpCloseHandle, which is Wine's, closes it.
HANDLE WINAPI mend_Icmp6CreateFile(void) { return real_IcmpCreateFile(); }

// Only calls that wait are carried out.
DWORD WINAPI mend_Icmp6SendEcho2(HANDLE handle, HANDLE event, void *routine, void *context, struct sockaddr_in6 *source,
                                 struct sockaddr_in6 *destination, void *data, WORD size,
                                 IP_OPTION_INFORMATION *options, void *reply, DWORD room, DWORD timeout)
{
    struct reply *out = reply;
    LARGE_INTEGER begin, end, second;
    (void)context;
    DWORD err = ERROR_INVALID_PARAMETER;
    if (!handle || handle == INVALID_HANDLE_VALUE || !source || !destination || (size && !data) || !reply) goto fail;
    err = ERROR_CALL_NOT_IMPLEMENTED;
    if (event || routine) goto fail;
    err = ERROR_INSUFFICIENT_BUFFER;
    if (room < sizeof(*out) + size) goto fail;
    struct echo e = {.size = (SIZE_T)ECHO_HEADER + size};
    err = ERROR_NOT_SUPPORTED; // no IPv6 on this computer
    e.fd = linux_call(LINUX_socket, LINUX_AF_INET6, LINUX_SOCK_DGRAM_CLOEXEC, LINUX_IPPROTO_ICMPV6, 0, 0);
    if (e.fd < 0) goto fail;
    err = ERROR_NOT_ENOUGH_MEMORY;
    e.packet = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, e.size);
    BOOL got = FALSE;
    if (e.packet) {
        e.packet[0] = ECHO_REQUEST; // Linux fills in the checksum and the identifier
        if (size) memcpy(e.packet + ECHO_HEADER, data, size);
        QueryPerformanceFrequency(&second);
        QueryPerformanceCounter(&begin);
        got = exchange(&e, source, destination, options ? options->Ttl : 0, timeout);
        QueryPerformanceCounter(&end);
        err = e.status;
    }
    if (got) {
        memset(out, 0, sizeof(*out));
        memcpy(out->from.address, e.from.address, sizeof(e.from.address));
        out->from.scope = e.from.scope;
        out->status = e.status;
        out->time = (UINT32)((end.QuadPart - begin.QuadPart) * 1000 / second.QuadPart);
        if (!e.status && e.size > ECHO_HEADER) memcpy(out + 1, e.packet + ECHO_HEADER, e.size - ECHO_HEADER);
    }
    if (e.packet) HeapFree(GetProcessHeap(), 0, e.packet);
    linux_call(LINUX_close, e.fd, 0, 0, 0, 0);
    if (got) return 1;
fail:
    SetLastError(err);
    return 0;
}
