// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The routing table. Sources of the rules: Microsoft's pages on each function,
// https://learn.microsoft.com/windows/win32/api/netioapi/ and /iphlpapi/, read
// 2026-11.

#include "iphlpapi.h"

static void set_address(SOCKADDR_INET *to, UINT32 address)
{
    to->Ipv4.sin_family = AF_INET;
    to->Ipv4.sin_addr.s_addr = address;
}

static void fill_row2(MIB_IPFORWARD_ROW2 *to, const union row *from)
{
    memset(to, 0, sizeof(*to));
    to->InterfaceIndex = from->route.adapter;
    real_ConvertInterfaceIndexToLuid(to->InterfaceIndex, &to->InterfaceLuid);
    set_address(&to->DestinationPrefix.Prefix, from->route.destination);
    to->DestinationPrefix.PrefixLength = (UINT8)from->route.length;
    set_address(&to->NextHop, from->route.next_hop);
    to->ValidLifetime = to->PreferredLifetime = 0xFFFFFFFF;
    to->Metric = from->route.metric;
    to->Protocol = (NL_ROUTE_PROTOCOL)from->route.protocol;
    to->Loopback = (BOOLEAN)from->route.loopback;
    to->AutoconfigureAddress = to->Immortal = TRUE;
    to->Origin = NlroManual;
}

// wine_routes returns Wine's table.
static DWORD wine_routes(ADDRESS_FAMILY family, MIB_IPFORWARD_TABLE2 **table)
{
    DWORD err = real_GetIpForwardTable2(family, table);
    if (!err && (err = tidy_routes6(*table))) real_FreeMibTable(*table);
    return err;
}

DWORD WINAPI mend_GetIpForwardTable2(ADDRESS_FAMILY family, MIB_IPFORWARD_TABLE2 **table)
{
    struct answer a;
    MIB_IPFORWARD_TABLE2 *six = NULL;
    if (!table || (family != AF_INET && family != AF_INET6 && family != AF_UNSPEC)) return ERROR_INVALID_PARAMETER;
    if (family == AF_INET6) return wine_routes(family, table);
    DWORD err = ask_service(VERB_ROUTES, NULL, &a);
    if (err == NO_SERVICE) return wine_routes(family, table);
    if (err) return err;
    if (family == AF_UNSPEC && wine_routes(AF_INET6, &six)) six = NULL;
    ULONG more = six ? six->NumEntries : 0;
    // FreeMibTable, which is Wine's, gives it back to the process heap.
    *table = HeapAlloc(GetProcessHeap(), 0, FIELD_OFFSET(MIB_IPFORWARD_TABLE2, Table[a.count + more]));
    if (*table) {
        (*table)->NumEntries = a.count + more;
        for (UINT32 i = 0; i < a.count; i++) fill_row2(&(*table)->Table[i], &a.rows[i]);
        if (more) memcpy(&(*table)->Table[a.count], six->Table, more * sizeof(*six->Table));
    }
    if (six) real_FreeMibTable(six);
    free_answer(&a);
    return *table ? NO_ERROR : ERROR_NOT_ENOUGH_MEMORY;
}

// The older structure has no word for a route on the link: its next hop is the
// adapter's own address. Its metric is the sum of the route's and the adapter's.
static void fill_row(MIB_IPFORWARDROW *to, const union row *from)
{
    memset(to, 0, sizeof(*to));
    to->dwForwardDest = from->route.destination;
    UINT32 length = from->route.length;
    UINT32 mask = length ? ~(UINT32)0 << (32 - length) : 0;
    to->dwForwardMask = __builtin_bswap32(mask);
    to->dwForwardIfIndex = from->route.adapter;
    to->dwForwardNextHop = from->route.next_hop ? from->route.next_hop : from->route.own;
    to->dwForwardType = from->route.next_hop ? MIB_IPROUTE_TYPE_INDIRECT : MIB_IPROUTE_TYPE_DIRECT;
    to->dwForwardProto = from->route.protocol;
    to->dwForwardMetric1 = from->route.metric + from->route.adapter_metric;
    to->dwForwardMetric2 = to->dwForwardMetric3 = to->dwForwardMetric4 = to->dwForwardMetric5 = MIB_IPROUTE_METRIC_UNUSED;
}

// The service's answer is in the order that `order` asks for.
DWORD WINAPI mend_GetIpForwardTable(MIB_IPFORWARDTABLE *table, ULONG *size, BOOL order)
{
    struct answer a;
    if (!size) return ERROR_INVALID_PARAMETER;
    DWORD err = ask_service(VERB_ROUTES, NULL, &a);
    if (err == NO_SERVICE) return real_GetIpForwardTable(table, size, order);
    if (err) return err;
    ULONG needed = FIELD_OFFSET(MIB_IPFORWARDTABLE, table[a.count]);
    if (!table || *size < needed) {
        *size = needed;
        free_answer(&a);
        return ERROR_INSUFFICIENT_BUFFER;
    }
    table->dwNumEntries = a.count;
    for (UINT32 i = 0; i < a.count; i++) fill_row(&table->table[i], &a.rows[i]);
    free_answer(&a);
    return NO_ERROR;
}

void WINAPI mend_InitializeIpForwardEntry(MIB_IPFORWARD_ROW2 *row)
{
    memset(row, 0, sizeof(*row));
    row->ValidLifetime = row->PreferredLifetime = 0xFFFFFFFF;
    row->Loopback = row->AutoconfigureAddress = row->Immortal = TRUE;
    row->Metric = 0xFFFFFFFF;
    row->Protocol = (NL_ROUTE_PROTOCOL)MIB_IPPROTO_NETMGMT;
}

// words_of turns a row into a request.
static DWORD words_of(const MIB_IPFORWARD_ROW2 *row, UINT32 words[REQUEST_WORDS])
{
    if (!row || (!row->InterfaceLuid.Value && !row->InterfaceIndex)) return ERROR_INVALID_PARAMETER;
    ADDRESS_FAMILY family = row->DestinationPrefix.Prefix.si_family;
    if (family == AF_INET6) return ERROR_NOT_SUPPORTED;
    if (family != AF_INET || row->DestinationPrefix.PrefixLength > 32) return ERROR_INVALID_PARAMETER;
    if (row->NextHop.si_family != AF_INET && row->NextHop.si_family != AF_UNSPEC) return ERROR_INVALID_PARAMETER;
    if (row->PreferredLifetime > row->ValidLifetime) return ERROR_INVALID_PARAMETER;
    words[0] = find_adapter(row->InterfaceLuid, row->InterfaceIndex);
    words[1] = row->DestinationPrefix.Prefix.Ipv4.sin_addr.s_addr;
    words[2] = row->DestinationPrefix.PrefixLength;
    words[3] = row->NextHop.si_family == AF_INET ? row->NextHop.Ipv4.sin_addr.s_addr : 0;
    words[4] = row->Metric;
    words[5] = 0;
    return NO_ERROR;
}

static DWORD change2(BYTE verb, const MIB_IPFORWARD_ROW2 *row)
{
    UINT32 words[REQUEST_WORDS];
    DWORD err = words_of(row, words);
    if (err) return err;
    if (words[4] == 0xFFFFFFFF) words[4] = 0; // what InitializeIpForwardEntry leaves
    return tell_service(verb, words);
}

DWORD WINAPI mend_CreateIpForwardEntry2(const MIB_IPFORWARD_ROW2 *row) { return change2(VERB_ADD, row); }
DWORD WINAPI mend_DeleteIpForwardEntry2(const MIB_IPFORWARD_ROW2 *row) { return change2(VERB_DELETE, row); }
DWORD WINAPI mend_SetIpForwardEntry2(const MIB_IPFORWARD_ROW2 *row) { return change2(VERB_SET, row); }

DWORD WINAPI mend_GetIpForwardEntry2(MIB_IPFORWARD_ROW2 *row)
{
    UINT32 words[REQUEST_WORDS];
    MIB_IPFORWARD_TABLE2 *table;
    DWORD err = words_of(row, words);
    if (!err) err = mend_GetIpForwardTable2(AF_INET, &table);
    if (err) return err;
    err = ERROR_NOT_FOUND;
    for (ULONG i = 0; i < table->NumEntries; i++) {
        const MIB_IPFORWARD_ROW2 *r = &table->Table[i];
        if (r->InterfaceIndex != words[0] || r->DestinationPrefix.Prefix.Ipv4.sin_addr.s_addr != words[1] ||
            r->DestinationPrefix.PrefixLength != words[2] || r->NextHop.Ipv4.sin_addr.s_addr != words[3])
            continue;
        memcpy(row, r, sizeof(*row));
        err = NO_ERROR;
        break;
    }
    real_FreeMibTable(table);
    return err;
}

// change1 is a call with the older structure.
static DWORD change1(BYTE verb, const MIB_IPFORWARDROW *row)
{
    MIB_IPINTERFACE_ROW adapter;
    if (!row) return ERROR_INVALID_PARAMETER;
    UINT32 mask = __builtin_bswap32(row->dwForwardMask), length = 0;
    while (length < 32 && mask & 0x80000000u >> length) length++;
    if (length < 32 && (UINT32)(mask << length)) return ERROR_INVALID_PARAMETER; // ones after a zero
    UINT32 words[REQUEST_WORDS] = {row->dwForwardIfIndex, row->dwForwardDest, length, row->dwForwardNextHop, 0, ON_LINK};
    if (verb != VERB_DELETE) {
        if (row->dwForwardProto != MIB_IPPROTO_NETMGMT) return ERROR_INVALID_PARAMETER;
        memset(&adapter, 0, sizeof(adapter));
        adapter.Family = AF_INET;
        adapter.InterfaceIndex = row->dwForwardIfIndex;
        DWORD err = mend_GetIpInterfaceEntry(&adapter);
        if (err) return err;
        if (row->dwForwardMetric1 < adapter.Metric) return ERROR_BAD_ARGUMENTS;
        words[4] = row->dwForwardMetric1 - adapter.Metric;
    }
    return tell_service(verb, words);
}

DWORD WINAPI mend_CreateIpForwardEntry(MIB_IPFORWARDROW *row) { return change1(VERB_ADD, row); }
DWORD WINAPI mend_DeleteIpForwardEntry(MIB_IPFORWARDROW *row) { return change1(VERB_DELETE, row); }
DWORD WINAPI mend_SetIpForwardEntry(MIB_IPFORWARDROW *row) { return change1(VERB_SET, row); }

BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void *reserved)
{
    (void)module;
    (void)reason;
    (void)reserved;
    return TRUE;
}
