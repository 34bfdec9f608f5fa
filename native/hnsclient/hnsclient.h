// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The client's end of the protocol of internal/hns/wire, for computenetwork.dll
// and vmcompute.dll. A header, because each of the two is one source file.
//
// Rules that every export keeps (docs/internals/hns.md, "Golden rules"): all out
// pointers are written before anything else; strings come from CoTaskMemAlloc
// and end in a NUL; success has no error record; without a server the answer is
// RPC_S_SERVER_UNAVAILABLE, at once.

#ifndef MULLION_HNSCLIENT_H
#define MULLION_HNSCLIENT_H

#include <winsock2.h>
#include <windows.h>

// Numbers of the protocol: internal/hns/hns.go (Kind), internal/hns/wire/frame.go.
enum { HNS_NETWORK = 1, HNS_ENDPOINT = 2, HNS_NAMESPACE = 3, HNS_LOADBALANCER = 4, HNS_SDNROUTE = 5 };
enum { HNS_ENUMERATE = 1, HNS_CREATE = 2, HNS_OPEN = 3, HNS_MODIFY = 4, HNS_QUERY = 5, HNS_DELETE = 6, HNS_CALL = 7, HNS_LIST = 8 };
enum {
    HNS_VERSION = 1,
    HNS_MAX_REQUEST = 8 << 20,   // bytes
    HNS_MAX_RESPONSE = 64 << 20, // bytes
    HNS_PORT = 10270,
    // How long a call may take, in milliseconds. One that changes the network
    // waits for the ones before it; a kernel with 10,000 rules needs a second.
    HNS_TIMEOUT = 60000,
    // Connections kept open. kube-proxy's two proxiers, its health checks and
    // the kubelet's statistics never have more calls under way.
    HNS_IDLE = 8,
};

// HRESULTs of Win32 errors; mingw-w64 12 has the numbers without the facility.
#define HNS_E_UNAVAILABLE ((HRESULT)0x800706BA) // RPC_S_SERVER_UNAVAILABLE
#define HNS_E_CALL_FAILED ((HRESULT)0x800706BE) // RPC_S_CALL_FAILED
#define HNS_NO_STRING 0xFFFFFFFFu

typedef struct {
    UINT8 kind, verb;
    GUID id, network;
    PCWSTR args[3]; // NULL counts as the empty string
} hns_request;

typedef struct {
    HRESULT hr;
    GUID id;
    PWSTR properties, record; // from CoTaskMemAlloc, or NULL
    UINT32 size;              // of properties, in WCHARs
} hns_reply;

static INIT_ONCE hns_once = INIT_ONCE_STATIC_INIT;
static void *(WINAPI *hns_co_alloc)(SIZE_T);
static void(WINAPI *hns_co_free)(void *);
static BOOL hns_ready;

static SRWLOCK hns_lock = SRWLOCK_INIT;
static SOCKET hns_idle[HNS_IDLE]; // guarded by hns_lock
static int hns_idle_count;        // guarded by hns_lock

// hns_init runs with the first call and not in DllMain, where neither libraries
// may be loaded nor sockets started.
static BOOL CALLBACK hns_init(INIT_ONCE *once, void *arg, void **result)
{
    (void)once, (void)arg, (void)result;
    WSADATA data;
    if (WSAStartup(MAKEWORD(2, 2), &data) != 0) return TRUE;
    // The clients free the strings with combase. ole32 would load half of the
    // desktop into each process.
    HMODULE combase = LoadLibraryW(L"combase.dll");
    if (!combase) return TRUE;
    hns_co_alloc = (void *(WINAPI *)(SIZE_T))(void *)GetProcAddress(combase, "CoTaskMemAlloc");
    hns_co_free = (void(WINAPI *)(void *))(void *)GetProcAddress(combase, "CoTaskMemFree");
    hns_ready = hns_co_alloc && hns_co_free;
    return TRUE;
}

static void *hns_alloc(SIZE_T n) { return HeapAlloc(GetProcessHeap(), 0, n); }
static void hns_free(void *p) { HeapFree(GetProcessHeap(), 0, p); }

static UINT32 hns_bytes(PCWSTR s)
{
    SIZE_T n = 0;
    if (s)
        while (n < HNS_MAX_REQUEST && s[n]) n++;
    return (UINT32)(n * sizeof(WCHAR));
}

// hns_address is 127.0.0.1:10270, or what MULLION_HNS_ADDRESS says: "a.b.c.d:port".
static struct sockaddr_in hns_address(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(HNS_PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    WCHAR text[32];
    DWORD n = GetEnvironmentVariableW(L"MULLION_HNS_ADDRESS", text, ARRAYSIZE(text));
    if (n == 0 || n >= ARRAYSIZE(text)) return to;
    UINT32 part[5] = {0}, i = 0;
    for (WCHAR *c = text; *c; c++) {
        if (*c >= '0' && *c <= '9')
            part[i] = part[i] * 10 + (*c - '0');
        else if (i < 4)
            i++;
        if (part[i] > 65535) return to;
    }
    if (i != 4 || part[0] > 255 || part[1] > 255 || part[2] > 255 || part[3] > 255) return to;
    to.sin_addr.s_addr = htonl(part[0] << 24 | part[1] << 16 | part[2] << 8 | part[3]);
    to.sin_port = htons((USHORT)part[4]);
    return to;
}

// hns_take returns an open connection, or INVALID_SOCKET. A connection that the
// server has closed since its last use is readable: it is thrown away.
static SOCKET hns_take(void)
{
    for (;;) {
        SOCKET s = INVALID_SOCKET;
        AcquireSRWLockExclusive(&hns_lock);
        if (hns_idle_count > 0) s = hns_idle[--hns_idle_count];
        ReleaseSRWLockExclusive(&hns_lock);
        if (s == INVALID_SOCKET) break;
        struct timeval none = {0, 0};
        fd_set readable;
        readable.fd_count = 1, readable.fd_array[0] = s;
        if (select(0, &readable, NULL, NULL, &none) == 0) return s;
        closesocket(s);
    }
    SOCKET s = WSASocketW(AF_INET, SOCK_STREAM, IPPROTO_TCP, NULL, 0, WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
    if (s == INVALID_SOCKET) return s;
    DWORD timeout = HNS_TIMEOUT;
    BOOL on = TRUE;
    struct sockaddr_in to = hns_address();
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (char *)&timeout, sizeof timeout);
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, (char *)&timeout, sizeof timeout);
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, (char *)&on, sizeof on);
    if (connect(s, (struct sockaddr *)&to, sizeof to) == 0) return s;
    closesocket(s);
    return INVALID_SOCKET;
}

static void hns_give_back(SOCKET s)
{
    AcquireSRWLockExclusive(&hns_lock);
    if (hns_idle_count < HNS_IDLE) {
        hns_idle[hns_idle_count++] = s;
        s = INVALID_SOCKET;
    }
    ReleaseSRWLockExclusive(&hns_lock);
    if (s != INVALID_SOCKET) closesocket(s);
}

static BOOL hns_send(SOCKET s, const BYTE *p, UINT32 n)
{
    while (n > 0) {
        int sent = send(s, (const char *)p, n > 1 << 20 ? 1 << 20 : n, 0);
        if (sent <= 0) return FALSE;
        p += sent, n -= sent;
    }
    return TRUE;
}

static BOOL hns_receive(SOCKET s, void *to, UINT32 n)
{
    BYTE *p = to;
    while (n > 0) {
        int got = recv(s, (char *)p, n > 1 << 20 ? 1 << 20 : n, 0);
        if (got <= 0) return FALSE;
        p += got, n -= got;
    }
    return TRUE;
}

static BYTE *hns_put(BYTE *p, const void *from, UINT32 n)
{
    memcpy(p, from, n);
    return p + n;
}

// hns_encode returns the request's bytes, from hns_alloc.
static BYTE *hns_encode(const hns_request *q, UINT32 *size)
{
    UINT32 bytes[3], total = 4 + 4 + 16 + 16;
    for (int i = 0; i < 3; i++) {
        bytes[i] = hns_bytes(q->args[i]);
        total += 4 + bytes[i];
        if (total > HNS_MAX_REQUEST) return NULL;
    }
    BYTE *b = hns_alloc(total), *p = b;
    if (!b) return NULL;
    UINT32 rest = total - 4;
    BYTE head[4] = {HNS_VERSION, q->kind, q->verb, 0};
    p = hns_put(p, &rest, 4);
    p = hns_put(p, head, 4);
    p = hns_put(p, &q->id, 16);
    p = hns_put(p, &q->network, 16);
    for (int i = 0; i < 3; i++) {
        p = hns_put(p, &bytes[i], 4);
        if (bytes[i]) p = hns_put(p, q->args[i], bytes[i]);
    }
    *size = total;
    return b;
}

// hns_string copies a string out of a response.
static BOOL hns_string(const BYTE **p, UINT32 *left, PWSTR *out)
{
    UINT32 n;
    *out = NULL;
    if (*left < 4) return FALSE;
    memcpy(&n, *p, 4);
    *p += 4, *left -= 4;
    if (n == HNS_NO_STRING) return TRUE;
    if (n > *left || n % 2) return FALSE;
    *out = hns_co_alloc((SIZE_T)n + sizeof(WCHAR));
    if (!*out) return FALSE;
    memcpy(*out, *p, n);
    (*out)[n / sizeof(WCHAR)] = 0;
    *p += n, *left -= n;
    return TRUE;
}

static BOOL hns_decode(const BYTE *b, UINT32 n, hns_reply *r)
{
    if (n < 24 || b[0] != HNS_VERSION) return FALSE;
    memcpy(&r->hr, b + 4, 4);
    memcpy(&r->id, b + 8, 16);
    const BYTE *p = b + 24;
    UINT32 left = n - 24;
    if (left >= 4) memcpy(&r->size, p, 4), r->size = r->size == HNS_NO_STRING ? 0 : r->size / sizeof(WCHAR);
    if (hns_string(&p, &left, &r->properties) && hns_string(&p, &left, &r->record) && left == 0) return TRUE;
    if (r->properties) hns_co_free(r->properties);
    if (r->record) hns_co_free(r->record);
    r->properties = r->record = NULL;
    return FALSE;
}

// hns_answer receives an answer. The first read takes the length and, nearly always, all of the rest: each read costs
// several calls of Wine's server.
static BOOL hns_answer(SOCKET s, hns_reply *r)
{
    BYTE first[4096];
    int got = recv(s, (char *)first, sizeof first, 0);
    UINT32 n;
    if (got < 1 || (got < 4 && !hns_receive(s, first + got, 4 - got))) return FALSE;
    if (got < 4) got = 4;
    memcpy(&n, first, 4);
    if (n > HNS_MAX_RESPONSE || (UINT32)got - 4 > n) return FALSE;
    BYTE *body = hns_alloc(n ? n : 1);
    if (!body) return FALSE;
    memcpy(body, first + 4, got - 4);
    BOOL ok = hns_receive(s, body + got - 4, n - (got - 4)) && hns_decode(body, n, r);
    hns_free(body);
    return ok;
}

// hns_exchange is one request and its answer on one connection.
static HRESULT hns_exchange(const BYTE *frame, UINT32 size, hns_reply *r)
{
    SOCKET s = hns_take();
    if (s == INVALID_SOCKET) return HNS_E_UNAVAILABLE;
    if (!hns_send(s, frame, size) || !hns_answer(s, r)) {
        closesocket(s);
        return HNS_E_CALL_FAILED;
    }
    hns_give_back(s);
    return S_OK;
}

// hns_do carries out a request. The reply is always filled in.
static HRESULT hns_do(const hns_request *q, hns_reply *r)
{
    memset(r, 0, sizeof *r);
    InitOnceExecuteOnce(&hns_once, hns_init, NULL, NULL);
    if (!hns_ready) return r->hr = HNS_E_UNAVAILABLE;
    UINT32 size = 0;
    BYTE *frame = hns_encode(q, &size);
    if (!frame) return r->hr = E_OUTOFMEMORY;
    HRESULT hr = hns_exchange(frame, size, r);
    // A restarting server breaks off calls. A call that only reads may be
    // repeated; a call that writes may already have taken effect.
    if (hr == HNS_E_CALL_FAILED && (q->verb == HNS_ENUMERATE || q->verb == HNS_LIST || q->verb == HNS_OPEN || q->verb == HNS_QUERY))
        hr = hns_exchange(frame, size, r);
    hns_free(frame);
    if (FAILED(hr)) r->hr = hr;
    return r->hr;
}

#endif
