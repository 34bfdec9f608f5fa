// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The adapters of a host. In its namespace are also the host's ends of the links
// to its pods, which a Windows host does not show.

#include "iphlpapi.h"

#ifndef DNS_ERROR_NO_DNS_SERVERS
#define DNS_ERROR_NO_DNS_SERVERS 9852
#endif

DECLSPEC_IMPORT ULONG WINAPI real_GetAdaptersAddresses(ULONG, ULONG, void *, IP_ADAPTER_ADDRESSES *, ULONG *);

// is_own reports whether a host shows an adapter.
static BOOL is_own(const IP_ADAPTER_ADDRESSES *a, const struct answer *own)
{
    return a->IfType == IF_TYPE_SOFTWARE_LOOPBACK || has_adapter(own, a->IfIndex ? a->IfIndex : a->Ipv6IfIndex);
}

// own_only removes what is not the host's own from a list.
static void own_only(IP_ADAPTER_ADDRESSES *list, const struct answer *own)
{
    // The caller's list begins at its buffer, so its first element is replaced.
    while (!is_own(list, own) && list->Next) *list = *list->Next;
    for (IP_ADAPTER_ADDRESSES *at = list; at->Next;) {
        if (is_own(at->Next, own))
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

// on_link is a prefix with its address, in the caller's buffer.
struct on_link {
    IP_ADAPTER_PREFIX prefix;
    SOCKADDR_INET address;
};

// add_prefixes lists the network of each address of the adapters, in the room from at to end.
static void add_prefixes(IP_ADAPTER_ADDRESSES *list, struct on_link *at, const struct on_link *end)
{
    for (IP_ADAPTER_ADDRESSES *a = list; a; a = a->Next) {
        IP_ADAPTER_PREFIX **next = &a->FirstPrefix;
        for (IP_ADAPTER_UNICAST_ADDRESS *u = a->FirstUnicastAddress; u && at < end; u = u->Next, at++) {
            const SOCKADDR_INET *from = (const SOCKADDR_INET *)u->Address.lpSockaddr;
            BOOL six = from->si_family == AF_INET6;
            UINT8 length = u->OnLinkPrefixLength;
            memset(at, 0, sizeof(*at));
            at->address.si_family = from->si_family;
            const BYTE *source = six ? from->Ipv6.sin6_addr.u.Byte : (const BYTE *)&from->Ipv4.sin_addr;
            BYTE *target = six ? at->address.Ipv6.sin6_addr.u.Byte : (BYTE *)&at->address.Ipv4.sin_addr;
            for (int bit = 0; bit < length && bit < (six ? 128 : 32); bit++)
                target[bit / 8] |= source[bit / 8] & (BYTE)(0x80 >> bit % 8);
            at->prefix.Length = sizeof(at->prefix);
            at->prefix.PrefixLength = length;
            at->prefix.Address.lpSockaddr = (SOCKADDR *)&at->address;
            at->prefix.Address.iSockaddrLength = six ? sizeof(at->address.Ipv6) : sizeof(at->address.Ipv4);
            *next = &at->prefix;
            next = &at->prefix.Next;
        }
    }
}

ULONG WINAPI mend_GetAdaptersAddresses(ULONG family, ULONG flags, void *reserved, IP_ADAPTER_ADDRESSES *list, ULONG *size)
{
    // The end of the caller's buffer is for names, which are longer than Wine's, and for prefixes.
    enum { PREFIXES = 32, NAMES = 4 * (NAME_ROOM + 64) * sizeof(WCHAR), ROOM = NAMES + (PREFIXES + 1) * sizeof(struct on_link) };
    struct answer own;
    if (!size) return real_GetAdaptersAddresses(family, flags, reserved, list, size);
    ULONG given = *size & ~(ULONG)7, left = list && given > ROOM ? given - ROOM : 0;
    // Debian's Wine 10 fails with ERROR_INVALID_DATA if a route without a gateway has the prefix ::/0, which Linux has
    // on the loopback interface (debian/patches/warnings/uninitialized-variables.patch).
    ULONG wine_flags = flags & ~(ULONG)GAA_FLAG_INCLUDE_PREFIX;
    ULONG err = real_GetAdaptersAddresses(family, wine_flags, reserved, left ? list : NULL, &left);
    // Wine fails if there is no server of the family, too.
    if (err == DNS_ERROR_NO_DNS_SERVERS)
        err = real_GetAdaptersAddresses(family, wine_flags | GAA_FLAG_SKIP_DNS_SERVER, reserved, left ? list : NULL, &left);
    if (err == ERROR_BUFFER_OVERFLOW) *size = left + ROOM;
    if (err || !list) return err;
    err = ask_service(VERB_ADAPTERS, NULL, &own);
    if (!err) own_only(list, &own); // in a pod all are its own
    BYTE *names = (BYTE *)list + given - NAMES;
    name_adapters(list, err == NO_SERVICE, (WCHAR *)names, (WCHAR *)((BYTE *)list + given));
    if (flags & GAA_FLAG_INCLUDE_PREFIX) {
        struct on_link *end = (struct on_link *)((ULONG_PTR)names & ~(ULONG_PTR)7);
        add_prefixes(list, end - PREFIXES, end);
    }
    free_answer(&own);
    return NO_ERROR;
}
