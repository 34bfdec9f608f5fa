// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The IPv4 interfaces of adapters and their settings. There are none of IPv6, also
// where adapters have IPv6 addresses.

#include "iphlpapi.h"

enum {
    LOOPBACK_METRIC = 75,
    ETHERNET_METRIC = 15,
    NO_CHANGE = 0xFF, // what InitializeIpInterfaceEntry puts into a BOOLEAN
};

NET_IFINDEX find_adapter(NET_LUID luid, NET_IFINDEX index)
{
    if (luid.Value && real_ConvertInterfaceLuidToIndex(&luid, &index)) return 0;
    return index;
}

static void fill(MIB_IPINTERFACE_ROW *to, const union row *from)
{
    UINT32 flags = from->adapter.flags;
    memset(to, 0, sizeof(*to));
    to->Family = AF_INET;
    to->InterfaceIndex = from->adapter.index;
    real_ConvertInterfaceIndexToLuid(to->InterfaceIndex, &to->InterfaceLuid);
    to->MaxReassemblySize = 65535;
    to->MinRouterAdvertisementInterval = 200;
    to->MaxRouterAdvertisementInterval = 600;
    to->AdvertisingEnabled = !!(flags & FLAG_ADVERTISING);
    to->ForwardingEnabled = !!(flags & FLAG_FORWARDING);
    to->WeakHostSend = !!(flags & FLAG_WEAK_HOST_SEND);
    to->WeakHostReceive = !!(flags & FLAG_WEAK_HOST_RECEIVE);
    to->UseAutomaticMetric = !!(flags & FLAG_AUTOMATIC_METRIC);
    to->UseNeighborUnreachabilityDetection = !(flags & FLAG_LOOPBACK);
    to->AdvertiseDefaultRoute = !!(flags & FLAG_ADVERTISE_DEFAULT_ROUTE);
    to->RouterDiscoveryBehavior = RouterDiscoveryDhcp;
    to->DadTransmits = flags & FLAG_LOOPBACK ? 0 : 3;
    to->BaseReachableTime = 30000;
    to->RetransmitTime = 1000;
    to->PathMtuDiscoveryTimeout = 600000;
    to->LinkLocalAddressBehavior = LinkLocalDelayed;
    to->LinkLocalAddressTimeout = 6500;
    to->Metric = from->adapter.metric;
    to->NlMtu = from->adapter.mtu;
    to->Connected = TRUE;
    to->SupportsNeighborDiscovery = to->SupportsRouterDiscovery = !(flags & FLAG_LOOPBACK);
    to->ReachableTime = 30000;
}

// from_wine fills a row for a pod: one of Wine's adapters with the settings that all have.
static void from_wine(union row *to, const MIB_IF_ROW2 *from)
{
    BOOL loopback = from->Type == IF_TYPE_SOFTWARE_LOOPBACK;
    memset(to, 0, sizeof(*to));
    to->adapter.index = from->InterfaceIndex;
    to->adapter.flags = FLAG_AUTOMATIC_METRIC | (loopback ? FLAG_LOOPBACK : 0);
    to->adapter.metric = loopback ? LOOPBACK_METRIC : ETHERNET_METRIC;
    to->adapter.mtu = from->Mtu;
}

static DWORD adapters(struct answer *a)
{
    MIB_IF_TABLE2 *table;
    DWORD err = ask_service(VERB_ADAPTERS, NULL, a);
    if (err != NO_SERVICE) return err;
    err = real_GetIfTable2(&table);
    if (err) return err;
    a->rows = HeapAlloc(GetProcessHeap(), 0, (table->NumEntries + 1) * sizeof(*a->rows));
    if (a->rows)
        for (a->count = 0; a->count < table->NumEntries; a->count++)
            from_wine(&a->rows[a->count], &table->Table[a->count]);
    real_FreeMibTable(table);
    return a->rows ? NO_ERROR : ERROR_NOT_ENOUGH_MEMORY;
}

DWORD WINAPI mend_GetIpInterfaceTable(ADDRESS_FAMILY family, MIB_IPINTERFACE_TABLE **table)
{
    struct answer a = {0};
    if (!table || (family != AF_INET && family != AF_INET6 && family != AF_UNSPEC)) return ERROR_INVALID_PARAMETER;
    if (family == AF_INET6) return ERROR_NOT_FOUND;
    DWORD err = adapters(&a);
    if (err) return err;
    *table = HeapAlloc(GetProcessHeap(), 0, FIELD_OFFSET(MIB_IPINTERFACE_TABLE, Table[a.count]));
    if (*table) {
        (*table)->NumEntries = a.count;
        for (UINT32 i = 0; i < a.count; i++) fill(&(*table)->Table[i], &a.rows[i]);
    }
    free_answer(&a);
    return *table ? NO_ERROR : ERROR_NOT_ENOUGH_MEMORY;
}

DWORD WINAPI mend_GetIpInterfaceEntry(MIB_IPINTERFACE_ROW *row)
{
    struct answer a = {0};
    if (!row || (row->Family != AF_INET && row->Family != AF_INET6)) return ERROR_INVALID_PARAMETER;
    if (!row->InterfaceLuid.Value && !row->InterfaceIndex) return ERROR_INVALID_PARAMETER;
    NET_IFINDEX index = find_adapter(row->InterfaceLuid, row->InterfaceIndex);
    if (!index) return ERROR_FILE_NOT_FOUND;
    if (row->Family == AF_INET6) return ERROR_NOT_FOUND;
    DWORD err = adapters(&a);
    if (err) return err;
    err = ERROR_FILE_NOT_FOUND;
    for (UINT32 i = 0; i < a.count && err; i++) {
        if (a.rows[i].adapter.index != index) continue;
        fill(row, &a.rows[i]);
        err = NO_ERROR;
    }
    free_answer(&a);
    return err;
}

void WINAPI mend_InitializeIpInterfaceEntry(MIB_IPINTERFACE_ROW *row)
{
    memset(row, 0xFF, sizeof(*row));
    row->Family = AF_UNSPEC;
    row->InterfaceLuid.Value = 0;
    row->InterfaceIndex = 0;
    row->SitePrefixLength = 0;
}

DWORD WINAPI mend_SetIpInterfaceEntry(MIB_IPINTERFACE_ROW *row)
{
    if (!row || (row->Family != AF_INET && row->Family != AF_INET6)) return ERROR_INVALID_PARAMETER;
    if (!row->InterfaceLuid.Value && !row->InterfaceIndex) return ERROR_INVALID_PARAMETER;
    if (row->Family == AF_INET6) return ERROR_NOT_FOUND;
    if (row->SitePrefixLength) return ERROR_INVALID_PARAMETER; // must be 0 for IPv4
    const struct {
        BOOLEAN value;
        UINT32 flag;
    } settings[] = {
        {row->ForwardingEnabled, FLAG_FORWARDING},      {row->WeakHostSend, FLAG_WEAK_HOST_SEND},
        {row->WeakHostReceive, FLAG_WEAK_HOST_RECEIVE}, {row->UseAutomaticMetric, FLAG_AUTOMATIC_METRIC},
        {row->AdvertisingEnabled, FLAG_ADVERTISING},    {row->AdvertiseDefaultRoute, FLAG_ADVERTISE_DEFAULT_ROUTE},
    };
    UINT32 words[REQUEST_WORDS] = {find_adapter(row->InterfaceLuid, row->InterfaceIndex)};
    if (!words[0]) return ERROR_FILE_NOT_FOUND;
    for (SIZE_T i = 0; i < ARRAYSIZE(settings); i++) {
        if (settings[i].value == NO_CHANGE) continue;
        words[1] |= settings[i].flag;
        if (settings[i].value) words[2] |= settings[i].flag;
    }
    if (row->Metric != 0xFFFFFFFF && !(words[2] & FLAG_AUTOMATIC_METRIC)) words[3] = row->Metric;
    if (row->NlMtu != 0xFFFFFFFF) words[4] = row->NlMtu;
    return tell_service(VERB_SET_ADAPTER, words);
}
