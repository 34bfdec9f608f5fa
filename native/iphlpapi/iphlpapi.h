// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

#ifndef MULLION_IPHLPAPI_H
#define MULLION_IPHLPAPI_H

#define WIN32_LEAN_AND_MEAN
#define _IPHLPAPI_ // the functions are ours
#include <winsock2.h>
#include <ws2ipdef.h>
#include <iphlpapi.h>
#include <netioapi.h>

// Words of requests and rows: internal/netplane/tcpip/server.go.
enum { REQUEST_WORDS = 6 };
enum { VERB_ROUTES = 1, VERB_ADD = 2, VERB_DELETE = 3, VERB_SET = 4, VERB_ADAPTERS = 5, VERB_SET_ADAPTER = 6 };
enum { ON_LINK = 1 };
enum {
    FLAG_FORWARDING = 1,
    FLAG_WEAK_HOST_SEND = 2,
    FLAG_WEAK_HOST_RECEIVE = 4,
    FLAG_AUTOMATIC_METRIC = 8,
    FLAG_ADVERTISING = 16,
    FLAG_ADVERTISE_DEFAULT_ROUTE = 32,
    FLAG_LOOPBACK = 64,
};

union row {
    struct {
        UINT32 adapter, destination, length, next_hop, metric, protocol, loopback, own, adapter_metric, spare;
    } route;
    struct {
        UINT32 index, flags, metric, mtu, spare[6];
    } adapter;
};

struct answer {
    union row *rows; // freed by free_answer
    UINT32 count;
};

// NO_SERVICE does not occur among the error codes of Windows.
#define NO_SERVICE 0xFFFFFFFFu

// ask_service carries out a call. Without a service, that is in a pod, it returns
// NO_SERVICE.
DWORD ask_service(BYTE verb, const UINT32 words[REQUEST_WORDS], struct answer *out);
void free_answer(struct answer *a);
// has_adapter reports whether an answer to VERB_ADAPTERS has an adapter.
BOOL has_adapter(const struct answer *adapters, NET_IFINDEX index);
// tell_service carries out a call that changes something.
DWORD tell_service(BYTE verb, const UINT32 words[REQUEST_WORDS]);

// tidy_routes6 leaves of Wine's routes of IPv6 those that Windows would have.
DWORD tidy_routes6(MIB_IPFORWARD_TABLE2 *table);

// find_adapter returns the index of the adapter that a LUID or, if that is 0, an
// index names; 0 if there is none.
NET_IFINDEX find_adapter(NET_LUID luid, NET_IFINDEX index);

// NAME_ROOM is the room of an adapter's name, with its end.
enum { NAME_ROOM = IF_MAX_STRING_SIZE + 1 };

// adapter_name finds the name by which Windows shows an adapter. It returns FALSE if the
// registry has none.
BOOL adapter_name(const WCHAR guid[], BOOL loopback, WCHAR name[NAME_ROOM]);
const WCHAR *adapter_description(BOOL loopback, BOOL pod);

DWORD WINAPI mend_GetIpInterfaceEntry(MIB_IPINTERFACE_ROW *row);

// Wine's own functions.
DECLSPEC_IMPORT DWORD WINAPI real_GetIpForwardTable(MIB_IPFORWARDTABLE *, ULONG *, BOOL);
DECLSPEC_IMPORT DWORD WINAPI real_GetIpForwardTable2(ADDRESS_FAMILY, MIB_IPFORWARD_TABLE2 **);
DECLSPEC_IMPORT DWORD WINAPI real_ConvertInterfaceIndexToLuid(NET_IFINDEX, NET_LUID *);
DECLSPEC_IMPORT DWORD WINAPI real_ConvertInterfaceLuidToIndex(const NET_LUID *, NET_IFINDEX *);
DECLSPEC_IMPORT DWORD WINAPI real_GetIfEntry2(MIB_IF_ROW2 *);
DECLSPEC_IMPORT DWORD WINAPI real_GetIfEntry2Ex(MIB_IF_TABLE_LEVEL, MIB_IF_ROW2 *);
DECLSPEC_IMPORT DWORD WINAPI real_GetIfTable2(MIB_IF_TABLE2 **);
DECLSPEC_IMPORT DWORD WINAPI real_GetIfTable2Ex(MIB_IF_TABLE_LEVEL, MIB_IF_TABLE2 **);
DECLSPEC_IMPORT ULONG WINAPI real_GetAdaptersInfo(IP_ADAPTER_INFO *, ULONG *);
DECLSPEC_IMPORT void WINAPI real_FreeMibTable(void *);
DECLSPEC_IMPORT HANDLE WINAPI real_IcmpCreateFile(void);

#endif
