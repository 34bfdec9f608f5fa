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

// own_only removes what is not the host's own from a list.
static void own_only(IP_ADAPTER_ADDRESSES *list, const struct answer *own)
{
    // The caller's list begins at its buffer: loopback, which stays, is the first.
    for (IP_ADAPTER_ADDRESSES *at = list; at->Next;) {
        NET_IFINDEX index = at->Next->IfIndex ? at->Next->IfIndex : at->Next->Ipv6IfIndex;
        if (listed(own, index))
            at = at->Next;
        else
            at->Next = at->Next->Next;
    }
}

// put copies a text to *at, if it fits before end, and returns the copy or what was there before.
static WCHAR *put(WCHAR **at, const WCHAR *end, const WCHAR *text, WCHAR *before)
{
    SIZE_T n = (SIZE_T)lstrlenW(text) + 1;
    if (n > (SIZE_T)(end - *at)) return before;
    WCHAR *copy = *at;
    memcpy(copy, text, n * sizeof(*text));
    *at += n;
    return copy;
}

// name_adapters gives the adapters the names of Windows, which it puts into the room from at to end.
static void name_adapters(IP_ADAPTER_ADDRESSES *list, BOOL pod, WCHAR *at, const WCHAR *end)
{
    for (IP_ADAPTER_ADDRESSES *a = list; a; a = a->Next) {
        WCHAR guid[64], name[NAME_ROOM];
        BOOL loopback = a->IfType == IF_TYPE_SOFTWARE_LOOPBACK;
        SIZE_T i = 0;
        for (; a->AdapterName[i] && i < ARRAYSIZE(guid) - 1; i++) guid[i] = (WCHAR)a->AdapterName[i];
        guid[i] = 0;
        if (!adapter_name(guid, loopback, name)) continue;
        if (a->FriendlyName) a->FriendlyName = put(&at, end, name, a->FriendlyName);
        a->Description = put(&at, end, adapter_description(loopback, pod), a->Description);
    }
}

ULONG WINAPI mend_GetAdaptersAddresses(ULONG family, ULONG flags, void *reserved, IP_ADAPTER_ADDRESSES *list, ULONG *size)
{
    // Names are longer than Wine's: the end of the caller's buffer is for them.
    enum { ROOM = 4 * (NAME_ROOM + 64) * sizeof(WCHAR) };
    struct answer own;
    if (!size) return real_GetAdaptersAddresses(family, flags, reserved, list, size);
    ULONG given = *size & ~(ULONG)1, left = list && given > ROOM ? given - ROOM : 0;
    ULONG err = real_GetAdaptersAddresses(family, flags, reserved, left ? list : NULL, &left);
    if (err == ERROR_BUFFER_OVERFLOW) *size = left + ROOM;
    if (err || !list) return err;
    err = ask_service(VERB_ADAPTERS, NULL, &own);
    if (!err) own_only(list, &own); // in a pod all are its own
    name_adapters(list, err == NO_SERVICE, (WCHAR *)((BYTE *)list + given - ROOM), (WCHAR *)((BYTE *)list + given));
    free_answer(&own);
    return NO_ERROR;
}
