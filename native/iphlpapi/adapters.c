// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The adapters of a host. In its namespace are also the host's ends of the links
// to its pods, which a Windows host does not show.

#include "iphlpapi.h"

DECLSPEC_IMPORT ULONG WINAPI real_GetAdaptersAddresses(ULONG, ULONG, void *, IP_ADAPTER_ADDRESSES *, ULONG *);

static BOOL listed(const struct answer *a, NET_IFINDEX index)
{
    for (UINT32 i = 0; i < a->count; i++)
        if (a->rows[i].adapter.index == index) return TRUE;
    return FALSE;
}

ULONG WINAPI mend_GetAdaptersAddresses(ULONG family, ULONG flags, void *reserved, IP_ADAPTER_ADDRESSES *list, ULONG *size)
{
    struct answer own;
    ULONG err = real_GetAdaptersAddresses(family, flags, reserved, list, size);
    if (err || !list) return err;
    if (ask_service(VERB_ADAPTERS, NULL, &own)) return err; // a pod: all are its own
    // The caller's list begins at its buffer: loopback, which stays, is the first.
    for (IP_ADAPTER_ADDRESSES *at = list; at->Next;) {
        NET_IFINDEX index = at->Next->IfIndex ? at->Next->IfIndex : at->Next->Ipv6IfIndex;
        if (listed(&own, index))
            at = at->Next;
        else
            at->Next = at->Next->Next;
    }
    free_answer(&own);
    return err;
}
