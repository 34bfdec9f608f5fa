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

// Clients that list objects enumerate them and then open, query and close each: with 5,000 Services kube-proxy makes
// 70,000 calls twice a minute, although nothing has changed. They also query what they have created. So the answer to
// an enumeration brings the documents along, and the answer to a creation the one document. A document is given out
// once, in the order of the enumeration, within two seconds, and only if this DLL has changed nothing for the process
// since. The query must have the text of the enumeration; after a creation it may have any. All else asks the server.
enum { LISTS = 4, LIST_AGE = 2000 /* ms */ };

typedef struct {
    PWSTR text;        // the JSON array of the IDs, and after a NUL each, the documents
    PWSTR query;       // NULL: of a creation, whose document answers any query
    PCWSTR next, end;  // next: of the object that comes next
    SIZE_T index;      // of the object that comes next
    ULONGLONG made;    // ms
    UINT8 kind;
} list;

static SRWLOCK lists_lock = SRWLOCK_INIT;
static list lists[LISTS]; // guarded by lists_lock
static int lists_newest;  // guarded by lists_lock
static UINT64 changes;    // guarded by lists_lock

static SIZE_T length(PCWSTR s)
{
    SIZE_T n = 0;
    while (s && s[n]) n++;
    return n;
}

static PWSTR copy(void *(*alloc)(SIZE_T), PCWSTR s, SIZE_T n)
{
    PWSTR to = alloc((n + 1) * sizeof(WCHAR));
    if (!to) return NULL;
    memcpy(to, s, n * sizeof(WCHAR));
    to[n] = 0;
    return to;
}

static void *co_alloc(SIZE_T n) { return hns_co_alloc(n); }

// list_free ends a list.
// Preconditions: lists_lock is held, or no other thread has the list.
static void list_free(list *l)
{
    if (l->text) hns_co_free(l->text);
    if (l->query) hns_free(l->query);
    *l = (list){0};
}

// lists_forget returns how many changes there are now.
static UINT64 lists_forget(void)
{
    AcquireSRWLockExclusive(&lists_lock);
    for (int i = 0; i < LISTS; i++) list_free(&lists[i]);
    UINT64 now = ++changes;
    ReleaseSRWLockExclusive(&lists_lock);
    return now;
}

static UINT64 changes_now(void)
{
    AcquireSRWLockShared(&lists_lock);
    UINT64 n = changes;
    ReleaseSRWLockShared(&lists_lock);
    return n;
}

// list_keep takes over the text of an answer, which was asked for after that many changes, and the query.
static void list_keep(UINT8 kind, PWSTR query, PWSTR text, UINT32 size, UINT64 after)
{
    list l = {text, query, text + length(text) + 1, text + size, 0, GetTickCount64(), kind};
    if (l.next >= l.end) { // no documents
        list_free(&l);
        return;
    }
    AcquireSRWLockExclusive(&lists_lock);
    if (after == changes) {
        lists_newest = (lists_newest + 1) % LISTS;
        list old = lists[lists_newest];
        lists[lists_newest] = l;
        l = old;
    }
    list_free(&l);
    ReleaseSRWLockExclusive(&lists_lock);
}

// list_find returns the list whose next object is that one, or NULL. With taken, the object whose document was given out
// last counts as well.
// Preconditions: lists_lock is held.
static list *list_find(UINT8 kind, const GUID *id, BOOL taken)
{
    static const char digits[] = "0123456789abcdef";
    WCHAR text[36], *p = text;
    BYTE b[16] = {id->Data1 >> 24, id->Data1 >> 16, id->Data1 >> 8, id->Data1, id->Data2 >> 8, id->Data2, id->Data3 >> 8, id->Data3};
    memcpy(b + 8, id->Data4, 8);
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) *p++ = '-';
        *p++ = digits[b[i] >> 4], *p++ = digits[b[i] & 15];
    }
    ULONGLONG now = GetTickCount64();
    for (int i = 0; i < LISTS; i++) {
        list *l = &lists[i];
        if (!l->text || l->kind != kind || now - l->made >= LIST_AGE) continue;
        for (SIZE_T n = 0; n <= (taken && l->index > 0); n++) {
            // The array is ["ID","ID",…].
            SIZE_T at = 2 + (l->index - n) * 39;
            if ((n > 0 || l->next < l->end) && l->text + at + 36 < l->end && memcmp(l->text + at, text, sizeof text) == 0)
                return l;
        }
    }
    return NULL;
}

// listed reports whether an object exists, as far as the lists say.
static BOOL listed(UINT8 kind, const GUID *id)
{
    AcquireSRWLockShared(&lists_lock);
    BOOL found = list_find(kind, id, TRUE) != NULL;
    ReleaseSRWLockShared(&lists_lock);
    return found;
}

// list_take returns the document of an object that comes next in a list, or NULL.
static PWSTR list_take(UINT8 kind, const GUID *id, PCWSTR query)
{
    PWSTR document = NULL;
    if (!query) query = L"";
    AcquireSRWLockExclusive(&lists_lock);
    list *l = list_find(kind, id, FALSE);
    SIZE_T n = length(query) + 1;
    if (l && (!l->query || (length(l->query) + 1 == n && memcmp(l->query, query, n * sizeof(WCHAR)) == 0))) {
        SIZE_T size = length(l->next);
        document = copy(co_alloc, l->next, size);
        l->next += size + 1, l->index++;
        // A list of one object still says that it exists: kube-proxy looks a network up, and then opens it to make an
        // endpoint in it.
        if (l->next >= l->end && l->index > 1) list_free(l);
    }
    ReleaseSRWLockExclusive(&lists_lock);
    return document;
}

static HRESULT enumerate(UINT8 kind, PCWSTR query, PWSTR *ids, PWSTR *record)
{
    if (record) *record = NULL;
    if (!ids) return E_POINTER;
    *ids = NULL;
    hns_reply r;
    UINT64 after = changes_now();
    hns_do(&(hns_request){.kind = kind, .verb = HNS_LIST, .args = {query}}, &r);
    if (SUCCEEDED(r.hr) && r.properties) {
        PWSTR first = copy(co_alloc, r.properties, length(r.properties));
        PWSTR same = copy(hns_alloc, query ? query : L"", length(query));
        if (first && same) {
            list_keep(kind, same, r.properties, r.size, after);
            r.properties = first;
        } else {
            if (first) hns_co_free(first);
            if (same) hns_free(same);
            r.hr = E_OUTOFMEMORY;
        }
    }
    return hand_out(&r, ids, record);
}

// change carries out a request that changes something. No document from before is given out afterwards. It returns how
// many changes there are now.
static UINT64 change(const hns_request *q, hns_reply *r)
{
    hns_do(q, r);
    return lists_forget();
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
    UINT64 before = changes_now(), after = change(&q, &r);
    if (SUCCEEDED(r.hr) && !(*handle = handle_new(kind, &r.id))) r.hr = E_OUTOFMEMORY;
    // With a change meanwhile the document may be of before it.
    if (SUCCEEDED(r.hr) && r.properties && after == before + 1) {
        list_keep(kind, NULL, r.properties, r.size, after);
        r.properties = NULL;
    }
    return hand_out(&r, NULL, record);
}

static HRESULT open(UINT8 kind, const GUID *id, void **handle, PWSTR *record)
{
    if (record) *record = NULL;
    if (!handle) return E_POINTER;
    *handle = NULL;
    if (!id) return E_INVALIDARG;
    if (listed(kind, id)) return (*handle = handle_new(kind, id)) ? S_OK : E_OUTOFMEMORY;
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
    change(&(hns_request){.kind = kind, .verb = HNS_MODIFY, .id = h->id, .args = {settings}}, &r);
    return hand_out(&r, NULL, record);
}

static HRESULT query_properties(UINT8 kind, const hcn_handle *h, PCWSTR query, PWSTR *properties, PWSTR *record)
{
    if (record) *record = NULL;
    if (!properties) return E_POINTER;
    *properties = NULL;
    if (!handle_is(h, kind)) return E_HANDLE;
    if ((*properties = list_take(kind, &h->id, query))) return S_OK;
    hns_reply r;
    hns_do(&(hns_request){.kind = kind, .verb = HNS_QUERY, .id = h->id, .args = {query}}, &r);
    return hand_out(&r, properties, record);
}

static HRESULT delete(UINT8 kind, const GUID *id, PWSTR *record)
{
    if (record) *record = NULL;
    if (!id) return E_INVALIDARG;
    hns_reply r;
    change(&(hns_request){.kind = kind, .verb = HNS_DELETE, .id = *id}, &r);
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
