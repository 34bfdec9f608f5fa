// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The routing table of IPv6, which Wine 8 does not read. It is Linux' own (ipv6_route in proc(5)):
// lines of DESTINATION LENGTH SOURCE LENGTH NEXTHOP METRIC USES COUNT FLAGS DEVICE, in hexadecimal
// but for the device.

#include "iphlpapi.h"

#include "../linux.h"

enum {
    TABLE_ROOM = 1 << 20, // bytes; a line has 150
    LINUX_SIOCGIFINDEX = 0x8933,
    LINUX_IFNAMSIZ = 16,
    RTF_GATEWAY = 2,
    RTF_REJECT = 0x200,
    RTF_ANYCAST = 0x100000,
    ROUTE_METRIC = 256, // of each route that Windows makes
};

static const char *skip(const char *at)
{
    while (*at == ' ') at++;
    return at;
}

static UINT32 digit(char c) { return (UINT32)(c <= '9' ? c - '0' : c - 'a' + 10); }

// hex reads a number and moves *at behind it.
static UINT32 hex(const char **at)
{
    UINT32 n = 0;
    for (*at = skip(*at); **at > ' '; (*at)++) n = n << 4 | digit(**at);
    return n;
}

static void hex_address(const char **at, SOCKADDR_INET *to)
{
    to->Ipv6.sin6_family = AF_INET6;
    *at = skip(*at);
    for (int i = 0; i < 16 && **at > ' '; i++, *at += 2)
        to->Ipv6.sin6_addr.u.Byte[i] = (UCHAR)(digit((*at)[0]) << 4 | digit((*at)[1]));
}

static NET_IFINDEX device_index(const char *name, long long fd)
{
    struct {
        char name[LINUX_IFNAMSIZ];
        INT32 index;
        BYTE rest[20];
    } request = {{0}, 0, {0}};
    for (int i = 0; name[i] > ' ' && i < LINUX_IFNAMSIZ - 1; i++) request.name[i] = name[i];
    if (linux_call(LINUX_ioctl, fd, LINUX_SIOCGIFINDEX, (long long)&request, 0, 0) < 0) return 0;
    return (NET_IFINDEX)request.index;
}

// parse fills a row. It returns FALSE for a line that Windows has no route for.
static BOOL parse(const char *line, MIB_IPFORWARD_ROW2 *to, long long fd)
{
    SOCKADDR_INET source;
    memset(to, 0, sizeof(*to));
    hex_address(&line, &to->DestinationPrefix.Prefix);
    to->DestinationPrefix.PrefixLength = (UINT8)hex(&line);
    hex_address(&line, &source);
    hex(&line);
    hex_address(&line, &to->NextHop);
    for (int i = 0; i < 3; i++) hex(&line);
    UINT32 flags = hex(&line);
    if (flags & (RTF_REJECT | RTF_ANYCAST)) return FALSE;
    to->InterfaceIndex = device_index(skip(line), fd);
    if (!to->InterfaceIndex || real_ConvertInterfaceIndexToLuid(to->InterfaceIndex, &to->InterfaceLuid)) return FALSE;
    to->ValidLifetime = to->PreferredLifetime = 0xFFFFFFFF;
    to->Metric = ROUTE_METRIC;
    to->Protocol = (NL_ROUTE_PROTOCOL)(flags & RTF_GATEWAY ? MIB_IPPROTO_NETMGMT : MIB_IPPROTO_LOCAL);
    to->AutoconfigureAddress = to->Immortal = TRUE;
    to->Origin = NlroManual;
    return TRUE;
}

static SIZE_T read_table(char *to)
{
    SIZE_T n = 0;
    long long fd = linux_call(LINUX_open, (long long)"/proc/net/ipv6_route", LINUX_O_CLOEXEC, 0, 0, 0), got;
    if (fd < 0) return 0;
    while ((got = linux_call(LINUX_read, fd, (long long)(to + n), (long long)(TABLE_ROOM - 1 - n), 0, 0)) > 0)
        n += (SIZE_T)got;
    linux_call(LINUX_close, fd, 0, 0, 0, 0);
    to[n] = 0;
    return n;
}

static BOOL shown(const struct answer *own, BOOL pod, NET_IFINDEX index)
{
    for (UINT32 i = 0; !pod && i < own->count; i++)
        if (own->rows[i].adapter.index == index) return TRUE;
    return pod;
}

// fill_table turns the text into rows and returns how many there are.
static ULONG fill_table(MIB_IPFORWARD_TABLE2 *to, const char *text, const struct answer *own, BOOL pod)
{
    ULONG n = 0;
    long long fd = linux_call(LINUX_socket, LINUX_AF_INET, LINUX_SOCK_DGRAM_CLOEXEC, 0, 0, 0);
    if (fd < 0) return 0;
    while (*text) {
        if (parse(text, &to->Table[n], fd) && shown(own, pod, to->Table[n].InterfaceIndex)) n++;
        while (*text && *text++ != '\n') continue;
    }
    linux_call(LINUX_close, fd, 0, 0, 0, 0);
    return n;
}

DWORD routes_of_ipv6(MIB_IPFORWARD_TABLE2 **table)
{
    struct answer own;
    DWORD err = ask_service(VERB_ADAPTERS, NULL, &own);
    BOOL pod = err == NO_SERVICE;
    if (err && !pod) return err;
    char *text = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, TABLE_ROOM);
    ULONG lines = 0;
    for (SIZE_T i = 0, n = text ? read_table(text) : 0; i < n; i++) lines += text[i] == '\n';
    // FreeMibTable, which is Wine's, gives it back to the process heap.
    *table = text ? HeapAlloc(GetProcessHeap(), 0, FIELD_OFFSET(MIB_IPFORWARD_TABLE2, Table[lines + 1])) : NULL;
    if (*table) (*table)->NumEntries = fill_table(*table, text, &own, pod);
    if (text) HeapFree(GetProcessHeap(), 0, text);
    free_answer(&own);
    return *table ? NO_ERROR : ERROR_NOT_ENOUGH_MEMORY;
}
