// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// computenetwork.dll: the HCN v2 functions, each a call to the HNS server
// (internal/hns/wire). The names and parameters are those of Microsoft's
// reference (https://learn.microsoft.com/virtualization/api/hcn/reference, read
// 2026-11); the SDN routes, which it does not list, are as
// github.com/Microsoft/hnslib v0.1.2 calls them (hcn/hcn.go).

#include "../hnsclient/hnsclient.h"

#define EXPORT __declspec(dllexport)

// A handle is the name of an object. The server holds nothing for it, so a
// client that forgets to close one, as hnslib does after an error, leaks 24 bytes
// of its own memory and nothing else.
typedef struct {
    UINT32 magic;
    UINT32 kind;
    GUID id;
} hcn_handle;

enum { HANDLE_OPEN = 0x4E434D48, HANDLE_CLOSED = 0 };

static hcn_handle *handle_new(UINT32 kind, const GUID *id)
{
    hcn_handle *h = hns_alloc(sizeof *h);
    if (h) *h = (hcn_handle){HANDLE_OPEN, kind, *id};
    return h;
}

static BOOL handle_is(const hcn_handle *h, UINT32 kind) { return h && h->magic == HANDLE_OPEN && h->kind == kind; }

static HRESULT hand_out(hns_reply *r, PWSTR *properties, PWSTR *record)
{
    if (properties && SUCCEEDED(r->hr))
        *properties = r->properties;
    else if (r->properties)
        hns_co_free(r->properties);
    if (record)
        *record = r->record;
    else if (r->record)
        hns_co_free(r->record);
    return r->hr;
}

static HRESULT enumerate(UINT8 kind, PCWSTR query, PWSTR *ids, PWSTR *record)
{
    if (record) *record = NULL;
    if (!ids) return E_POINTER;
    *ids = NULL;
    hns_reply r;
    hns_do(&(hns_request){.kind = kind, .verb = HNS_ENUMERATE, .args = {query}}, &r);
    return hand_out(&r, ids, record);
}

static HRESULT create(UINT8 kind, const hcn_handle *network, const GUID *id, PCWSTR settings, void **handle, PWSTR *record)
{
    if (record) *record = NULL;
    if (!handle) return E_POINTER;
    *handle = NULL;
    hns_request q = {.kind = kind, .verb = HNS_CREATE, .args = {settings}};
    if (id) q.id = *id;
    if (network) q.network = network->id;
    hns_reply r;
    if (SUCCEEDED(hns_do(&q, &r)) && !(*handle = handle_new(kind, &r.id))) r.hr = E_OUTOFMEMORY;
    return hand_out(&r, NULL, record);
}

static HRESULT open(UINT8 kind, const GUID *id, void **handle, PWSTR *record)
{
    if (record) *record = NULL;
    if (!handle) return E_POINTER;
    *handle = NULL;
    if (!id) return E_INVALIDARG;
    hns_reply r;
    if (SUCCEEDED(hns_do(&(hns_request){.kind = kind, .verb = HNS_OPEN, .id = *id}, &r)) && !(*handle = handle_new(kind, id)))
        r.hr = E_OUTOFMEMORY;
    return hand_out(&r, NULL, record);
}

static HRESULT modify(UINT8 kind, const hcn_handle *h, PCWSTR settings, PWSTR *record)
{
    if (record) *record = NULL;
    if (!handle_is(h, kind)) return E_HANDLE;
    hns_reply r;
    hns_do(&(hns_request){.kind = kind, .verb = HNS_MODIFY, .id = h->id, .args = {settings}}, &r);
    return hand_out(&r, NULL, record);
}

static HRESULT query_properties(UINT8 kind, const hcn_handle *h, PCWSTR query, PWSTR *properties, PWSTR *record)
{
    if (record) *record = NULL;
    if (!properties) return E_POINTER;
    *properties = NULL;
    if (!handle_is(h, kind)) return E_HANDLE;
    hns_reply r;
    hns_do(&(hns_request){.kind = kind, .verb = HNS_QUERY, .id = h->id, .args = {query}}, &r);
    return hand_out(&r, properties, record);
}

static HRESULT delete(UINT8 kind, const GUID *id, PWSTR *record)
{
    if (record) *record = NULL;
    if (!id) return E_INVALIDARG;
    hns_reply r;
    hns_do(&(hns_request){.kind = kind, .verb = HNS_DELETE, .id = *id}, &r);
    return hand_out(&r, NULL, record);
}

static HRESULT close_handle(hcn_handle *h)
{
    if (h && h->magic == HANDLE_OPEN) {
        h->magic = HANDLE_CLOSED;
        hns_free(h);
    }
    return S_OK;
}

// FUNCTIONS defines the six functions that all kinds have alike.
#define FUNCTIONS(Name, kind)                                                                                                      \
    EXPORT HRESULT WINAPI HcnEnumerate##Name##s(PCWSTR query, PWSTR *ids, PWSTR *record) { return enumerate(kind, query, ids, record); } \
    EXPORT HRESULT WINAPI HcnOpen##Name(const GUID *id, void **handle, PWSTR *record) { return open(kind, id, handle, record); }   \
    EXPORT HRESULT WINAPI HcnModify##Name(void *handle, PCWSTR settings, PWSTR *record) { return modify(kind, handle, settings, record); } \
    EXPORT HRESULT WINAPI HcnQuery##Name##Properties(void *handle, PCWSTR query, PWSTR *properties, PWSTR *record)                 \
    {                                                                                                                              \
        return query_properties(kind, handle, query, properties, record);                                                         \
    }                                                                                                                              \
    EXPORT HRESULT WINAPI HcnDelete##Name(const GUID *id, PWSTR *record) { return delete (kind, id, record); }                     \
    EXPORT HRESULT WINAPI HcnClose##Name(void *handle) { return close_handle(handle); }

// CREATE defines the function that makes an object of a kind other than endpoint.
#define CREATE(Name, kind)                                                                                        \
    EXPORT HRESULT WINAPI HcnCreate##Name(const GUID *id, PCWSTR settings, void **handle, PWSTR *record)          \
    {                                                                                                             \
        return create(kind, NULL, id, settings, handle, record);                                                  \
    }

FUNCTIONS(Network, HNS_NETWORK)
FUNCTIONS(Endpoint, HNS_ENDPOINT)
FUNCTIONS(Namespace, HNS_NAMESPACE)
FUNCTIONS(LoadBalancer, HNS_LOADBALANCER)
FUNCTIONS(SdnRoute, HNS_SDNROUTE)
CREATE(Network, HNS_NETWORK)
CREATE(Namespace, HNS_NAMESPACE)
CREATE(LoadBalancer, HNS_LOADBALANCER)
CREATE(SdnRoute, HNS_SDNROUTE)

EXPORT HRESULT WINAPI HcnCreateEndpoint(void *network, const GUID *id, PCWSTR settings, void **handle, PWSTR *record)
{
    if (record) *record = NULL;
    if (handle) *handle = NULL;
    if (!handle_is(network, HNS_NETWORK)) return E_HANDLE;
    return create(HNS_ENDPOINT, network, id, settings, handle, record);
}

BOOL WINAPI DllMain(HINSTANCE self, DWORD reason, void *reserved)
{
    (void)reserved;
    if (reason == DLL_PROCESS_ATTACH) DisableThreadLibraryCalls(self);
    return TRUE;
}
