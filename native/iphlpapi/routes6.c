// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The routes of IPv6. Wine lists all lines of Linux' /proc/net/ipv6_route (dlls/nsiproxy.sys/ip.c,
// ipv6_forward_enumerate_all), without their flags. Windows has fewer, and another metric.

#include "iphlpapi.h"

enum { ROUTE_METRIC = 256 }; // of each route that Windows makes

// is_anycast reports whether a row is the address of a network itself, which Linux' routers listen on (RFC 4291, 2.6.1).
static BOOL is_anycast(const MIB_IPFORWARD_TABLE2 *table, const MIB_IPFORWARD_ROW2 *row)
{
    const IP_ADDRESS_PREFIX *a = &row->DestinationPrefix;
    if (a->PrefixLength != 128) return FALSE;
    for (ULONG i = 0; i < table->NumEntries; i++) {
        const IP_ADDRESS_PREFIX *b = &table->Table[i].DestinationPrefix;
        if (b->PrefixLength < 128 && table->Table[i].InterfaceIndex == row->InterfaceIndex &&
            b->Prefix.si_family == AF_INET6 && IN6_ADDR_EQUAL(&a->Prefix.Ipv6.sin6_addr, &b->Prefix.Ipv6.sin6_addr))
            return TRUE;
    }
    return FALSE;
}

// is_refusal reports whether Linux answers packets for a row's addresses with an error. Such rows are on the loopback
// interface, which is else for local addresses only. These have the metric 0.
static BOOL is_refusal(const MIB_IPFORWARD_ROW2 *row)
{
    return row->InterfaceLuid.Info.IfType == IF_TYPE_SOFTWARE_LOOPBACK && row->Metric != 0;
}

DWORD tidy_routes6(MIB_IPFORWARD_TABLE2 *table)
{
    struct answer own;
    DWORD err = ask_service(VERB_ADAPTERS, NULL, &own);
    BOOL pod = err == NO_SERVICE; // its adapters are all its own
    if (err && !pod) return err;
    ULONG kept = 0;
    for (ULONG i = 0; i < table->NumEntries; i++) {
        MIB_IPFORWARD_ROW2 *row = &table->Table[i];
        if (row->DestinationPrefix.Prefix.si_family == AF_INET6) {
            if (is_refusal(row) || is_anycast(table, row) || !(pod || has_adapter(&own, row->InterfaceIndex))) continue;
            row->Metric = ROUTE_METRIC;
            row->Loopback = FALSE; // Wine takes a network /32 for an address
        }
        memmove(&table->Table[kept++], row, sizeof(*row));
    }
    table->NumEntries = kept;
    free_answer(&own);
    return NO_ERROR;
}
