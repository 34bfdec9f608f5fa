// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// ws2_32.dll in front of Wine's own. Every export goes to a copy of Wine's
// ws2_32.dll under the name ws2_32w.dll (the .def file is made from its export
// table), except for those below, which add what Wine lacks:
//
//   - AF_UNIX stream sockets, which the kubelet's device manager and plugin
//     registration use. A socket that is bound to a path listens on
//     127.0.0.1 instead, and the port stands in the file of that path.
//   - WSAIoctl SIO_UDP_NETRESET. Go sets it on every UDP socket since 1.21 and
//     gives up if it fails.
//
// Fidelity: subset - permissions of the socket's file are not checked on
// connect, and a socket bound in one network namespace cannot be reached from
// another (docs/fidelity/wine.md).

#define WIN32_LEAN_AND_MEAN
#include <winsock2.h>
#include <ws2tcpip.h>
#include <mswsock.h>
#include <windows.h>

#include "../linux.h"

#ifndef AF_UNIX
#define AF_UNIX 1
#endif
#define UNIX_PATH_MAX 108 // afunix.h

struct sockaddr_un {
    ADDRESS_FAMILY sun_family;
    char sun_path[UNIX_PATH_MAX];
};

// SIO_UDP_NETRESET: _WSAIOW(IOC_VENDOR, 15), mswsock.h of the Windows SDK.
#define SIO_UDP_NETRESET_CODE 0x9800000FUL

// Wine's own functions. ws2_32.def binds the names without "real_" to ours.
DECLSPEC_IMPORT SOCKET WSAAPI real_WSASocketW(int, int, int, WSAPROTOCOL_INFOW *, GROUP, DWORD);
DECLSPEC_IMPORT SOCKET WSAAPI real_socket(int, int, int);
DECLSPEC_IMPORT int WSAAPI real_bind(SOCKET, const struct sockaddr *, int);
DECLSPEC_IMPORT int WSAAPI real_connect(SOCKET, const struct sockaddr *, int);
DECLSPEC_IMPORT int WSAAPI real_getsockname(SOCKET, struct sockaddr *, int *);
DECLSPEC_IMPORT int WSAAPI real_getpeername(SOCKET, struct sockaddr *, int *);
DECLSPEC_IMPORT int WSAAPI real_setsockopt(SOCKET, int, int, const char *, int);
DECLSPEC_IMPORT SOCKET WSAAPI real_accept(SOCKET, struct sockaddr *, int *);
DECLSPEC_IMPORT int WSAAPI real_closesocket(SOCKET);
DECLSPEC_IMPORT int WSAAPI real_WSAIoctl(SOCKET, DWORD, void *, DWORD, void *, DWORD, DWORD *, WSAOVERLAPPED *,
                                         LPWSAOVERLAPPED_COMPLETION_ROUTINE);
DECLSPEC_IMPORT void WSAAPI real_WSASetLastError(int);

// A socket that its program takes for AF_UNIX.
struct unix_socket {
    struct unix_socket *next;
    SOCKET s;
    char local[UNIX_PATH_MAX], peer[UNIX_PATH_MAX];
};

// An AcceptEx on such a socket whose addresses were not asked for yet.
struct pending {
    struct pending *next;
    void *buffer;
    char local[UNIX_PATH_MAX];
};

// A process holds few unix sockets (the kubelet about a dozen); 64 chains keep
// the look-up on closesocket, which all sockets take, at one comparison.
#define CHAINS 64
static struct unix_socket *chains[CHAINS]; // guarded by lock
static struct pending *pendings;           // guarded by lock
static SRWLOCK lock = SRWLOCK_INIT;
static LPFN_ACCEPTEX real_AcceptEx;
static LPFN_GETACCEPTEXSOCKADDRS real_GetAcceptExSockaddrs;

static struct unix_socket **chain(SOCKET s) { return &chains[(s >> 2) % CHAINS]; }

static void copy_path(char to[UNIX_PATH_MAX], const char *from)
{
    lstrcpynA(to, from, UNIX_PATH_MAX);
}

static void track(SOCKET s, const char *local)
{
    struct unix_socket *u = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof(*u));
    if (!u) return;
    u->s = s;
    copy_path(u->local, local);
    AcquireSRWLockExclusive(&lock);
    u->next = *chain(s);
    *chain(s) = u;
    ReleaseSRWLockExclusive(&lock);
}

// lookup copies the socket's entry, so that no caller holds the lock over a
// call that may block.
static BOOL lookup(SOCKET s, struct unix_socket *out)
{
    BOOL found = FALSE;
    AcquireSRWLockShared(&lock);
    for (struct unix_socket *u = *chain(s); u; u = u->next) {
        if (u->s != s) continue;
        *out = *u;
        found = TRUE;
        break;
    }
    ReleaseSRWLockShared(&lock);
    return found;
}

static void set_paths(SOCKET s, const char *local, const char *peer)
{
    AcquireSRWLockExclusive(&lock);
    for (struct unix_socket *u = *chain(s); u; u = u->next) {
        if (u->s != s) continue;
        if (local) copy_path(u->local, local);
        if (peer) copy_path(u->peer, peer);
    }
    ReleaseSRWLockExclusive(&lock);
}

static int fail(int error)
{
    real_WSASetLastError(error);
    return SOCKET_ERROR;
}

// give_address hands a sockaddr_un to a caller of getsockname and the like.
static int give_address(const char *path, struct sockaddr *to, int *len)
{
    struct sockaddr_un un = {AF_UNIX, ""};
    if (!to || !len) return 0;
    copy_path(un.sun_path, path);
    int size = (int)(offsetof(struct sockaddr_un, sun_path) + lstrlenA(path) + 1);
    // Windows fills what fits and wants room for the family at least.
    if (*len < (int)sizeof(ADDRESS_FAMILY)) return fail(WSAEFAULT);
    int n = *len < size ? *len : size;
    CopyMemory(to, &un, n);
    *len = size;
    return 0;
}

static BOOL take_path(const struct sockaddr *name, int len, char path[UNIX_PATH_MAX], WCHAR wide[MAX_PATH])
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)name;
    int max = len - (int)offsetof(struct sockaddr_un, sun_path);
    if (!name || max < 0 || un->sun_family != AF_UNIX) return FALSE;
    if (max >= UNIX_PATH_MAX) max = UNIX_PATH_MAX - 1;
    lstrcpynA(path, un->sun_path, max + 1);
    return MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, MAX_PATH) > 0;
}

static SOCKET open_unix(int type, GROUP group, DWORD flags)
{
    // Windows has no AF_UNIX datagram sockets either (afunix.h).
    if (type != SOCK_STREAM) {
        real_WSASetLastError(WSAESOCKTNOSUPPORT);
        return INVALID_SOCKET;
    }
    SOCKET s = real_WSASocketW(AF_INET, SOCK_STREAM, IPPROTO_TCP, NULL, group, flags);
    if (s == INVALID_SOCKET) return s;
    BOOL on = TRUE; // a unix socket never waits to fill a packet
    real_setsockopt(s, IPPROTO_TCP, TCP_NODELAY, (const char *)&on, sizeof(on));
    track(s, "");
    return s;
}

SOCKET WSAAPI mend_WSASocketW(int af, int type, int protocol, WSAPROTOCOL_INFOW *info, GROUP group, DWORD flags)
{
    if (af == AF_UNIX && !info) return open_unix(type, group, flags);
    return real_WSASocketW(af, type, protocol, info, group, flags);
}

SOCKET WSAAPI mend_socket(int af, int type, int protocol)
{
    if (af == AF_UNIX) return open_unix(type, 0, WSA_FLAG_OVERLAPPED);
    return real_socket(af, type, protocol);
}

// A socket's file contains this line, with the port. With any other content, a
// removed file or a port without a listener, connections are refused.
#define FILE_PREFIX "AF_UNIX 127.0.0.1:"

static BOOL write_port(HANDLE file, unsigned short port)
{
    char line[] = FILE_PREFIX "     \n"; // room for five digits
    char *end = line + sizeof(line) - 2;
    char digits[5];
    int n = 0;
    do digits[n++] = (char)('0' + port % 10);
    while ((port /= 10) != 0);
    char *at = line + sizeof(FILE_PREFIX) - 1;
    while (n > 0) *at++ = digits[--n];
    while (at < end) *at++ = '\n';
    DWORD wrote;
    return WriteFile(file, line, sizeof(line) - 1, &wrote, NULL);
}

static unsigned short read_port(const WCHAR *path)
{
    HANDLE file = CreateFileW(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                              OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE_VALUE) return 0;
    char line[64];
    DWORD n = 0;
    BOOL ok = ReadFile(file, line, sizeof(line) - 1, &n, NULL);
    CloseHandle(file);
    DWORD prefix = sizeof(FILE_PREFIX) - 1;
    if (!ok || n <= prefix) return 0;
    for (DWORD i = 0; i < prefix; i++)
        if (line[i] != FILE_PREFIX[i]) return 0;
    unsigned port = 0;
    for (DWORD i = prefix; i < n && line[i] >= '0' && line[i] <= '9' && port < 65536; i++)
        port = port * 10 + (unsigned)(line[i] - '0');
    return port < 65536 ? (unsigned short)port : 0;
}

// mark_socket sets the sticky bit of the file, which means nothing on a file
// of Linux: winemend.dll shows a file that has it as a socket (a reparse point
// with IO_REPARSE_TAG_AF_UNIX), so that programs that look for sockets which
// their predecessors left, as the kubelet does, find them.
static void mark_socket(const WCHAR *path)
{
    char *(CDECL *unix_name)(const WCHAR *) =
        (void *)GetProcAddress(GetModuleHandleW(L"kernel32.dll"), "wine_get_unix_file_name");
    char *name = unix_name ? unix_name(path) : NULL;
    if (!name) return;
    linux_call(LINUX_chmod, (long long)name, 01644, 0, 0, 0);
    HeapFree(GetProcessHeap(), 0, name);
}

int WSAAPI mend_bind(SOCKET s, const struct sockaddr *name, int len)
{
    struct unix_socket u;
    if (!lookup(s, &u)) return real_bind(s, name, len);
    char path[UNIX_PATH_MAX];
    WCHAR wide[MAX_PATH];
    if (!take_path(name, len, path, wide)) return fail(WSAEFAULT);

    HANDLE file = INVALID_HANDLE_VALUE;
    if (path[0]) {
        file = CreateFileW(wide, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, CREATE_NEW,
                           FILE_ATTRIBUTE_NORMAL, NULL);
        if (file == INVALID_HANDLE_VALUE) {
            DWORD e = GetLastError();
            return fail(e == ERROR_FILE_EXISTS || e == ERROR_ALREADY_EXISTS ? WSAEADDRINUSE
                        : e == ERROR_ACCESS_DENIED                          ? WSAEACCES
                                                                            : WSAEINVAL);
        }
    }
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = 0x0100007f};
    int in_len = sizeof(in);
    if (real_bind(s, (struct sockaddr *)&in, in_len) || real_getsockname(s, (struct sockaddr *)&in, &in_len)) {
        int e = (int)GetLastError(); // where Winsock keeps its own
        if (file != INVALID_HANDLE_VALUE) {
            CloseHandle(file);
            DeleteFileW(wide);
        }
        return fail(e);
    }
    if (file != INVALID_HANDLE_VALUE) {
        BOOL ok = write_port(file, (unsigned short)((in.sin_port >> 8) | (in.sin_port << 8)));
        CloseHandle(file);
        if (!ok) {
            DeleteFileW(wide);
            return fail(WSAENOBUFS);
        }
        mark_socket(wide);
    }
    set_paths(s, path, NULL);
    return 0;
}

int WSAAPI mend_connect(SOCKET s, const struct sockaddr *name, int len)
{
    struct unix_socket u;
    if (!lookup(s, &u)) return real_connect(s, name, len);
    char path[UNIX_PATH_MAX];
    WCHAR wide[MAX_PATH];
    if (!take_path(name, len, path, wide)) return fail(WSAEFAULT);
    unsigned short port = read_port(wide);
    if (!port) return fail(WSAECONNREFUSED);
    struct sockaddr_in in = {
        .sin_family = AF_INET,
        .sin_port = (unsigned short)((port >> 8) | (port << 8)),
        .sin_addr.s_addr = 0x0100007f,
    };
    if (real_connect(s, (struct sockaddr *)&in, sizeof(in))) return SOCKET_ERROR;
    set_paths(s, NULL, path);
    return 0;
}

int WSAAPI mend_getsockname(SOCKET s, struct sockaddr *name, int *len)
{
    struct unix_socket u;
    if (!lookup(s, &u)) return real_getsockname(s, name, len);
    return give_address(u.local, name, len);
}

int WSAAPI mend_getpeername(SOCKET s, struct sockaddr *name, int *len)
{
    struct unix_socket u;
    if (!lookup(s, &u)) return real_getpeername(s, name, len);
    struct sockaddr_in in;
    int in_len = sizeof(in);
    if (real_getpeername(s, (struct sockaddr *)&in, &in_len)) return SOCKET_ERROR; // not connected
    return give_address(u.peer, name, len);
}

SOCKET WSAAPI mend_accept(SOCKET s, struct sockaddr *name, int *len)
{
    struct unix_socket u;
    if (!lookup(s, &u)) return real_accept(s, name, len);
    SOCKET got = real_accept(s, NULL, NULL);
    if (got == INVALID_SOCKET) return got;
    track(got, u.local);
    give_address("", name, len);
    return got;
}

int WSAAPI mend_closesocket(SOCKET s)
{
    AcquireSRWLockExclusive(&lock);
    for (struct unix_socket **p = chain(s); *p; p = &(*p)->next) {
        struct unix_socket *u = *p;
        if (u->s != s) continue;
        *p = u->next;
        HeapFree(GetProcessHeap(), 0, u);
        break;
    }
    ReleaseSRWLockExclusive(&lock);
    return real_closesocket(s);
}

static BOOL WINAPI mend_AcceptEx(SOCKET listener, SOCKET accepted, void *buffer, DWORD data_len, DWORD local_len,
                                 DWORD remote_len, DWORD *got, OVERLAPPED *overlapped)
{
    struct unix_socket u;
    if (lookup(listener, &u)) {
        struct pending *p = HeapAlloc(GetProcessHeap(), 0, sizeof(*p));
        if (p) {
            p->buffer = buffer;
            copy_path(p->local, u.local);
            AcquireSRWLockExclusive(&lock);
            p->next = pendings;
            pendings = p;
            ReleaseSRWLockExclusive(&lock);
        }
        set_paths(accepted, u.local, "");
    }
    return real_AcceptEx(listener, accepted, buffer, data_len, local_len, remote_len, got, overlapped);
}

static void WINAPI mend_GetAcceptExSockaddrs(void *buffer, DWORD data_len, DWORD local_len, DWORD remote_len,
                                             struct sockaddr **local, int *local_size, struct sockaddr **remote,
                                             int *remote_size)
{
    char path[UNIX_PATH_MAX];
    BOOL found = FALSE;
    AcquireSRWLockExclusive(&lock);
    for (struct pending **p = &pendings; *p;) {
        struct pending *one = *p;
        if (one->buffer != buffer) {
            p = &one->next;
            continue;
        }
        if (!found) copy_path(path, one->local); // the newest is first
        found = TRUE;
        *p = one->next;
        HeapFree(GetProcessHeap(), 0, one);
    }
    ReleaseSRWLockExclusive(&lock);
    if (!found || local_len < sizeof(struct sockaddr_un) || remote_len < sizeof(struct sockaddr_un)) {
        real_GetAcceptExSockaddrs(buffer, data_len, local_len, remote_len, local, local_size, remote, remote_size);
        return;
    }
    *local = (struct sockaddr *)((char *)buffer + data_len);
    *local_size = (int)local_len;
    *remote = (struct sockaddr *)((char *)buffer + data_len + local_len);
    *remote_size = (int)remote_len;
    give_address(path, *local, local_size);
    give_address("", *remote, remote_size);
}

// swap_extension replaces a function that WSAIoctl has just given out, if it
// has ours. mswsock.dll's exports of these names come here too.
static void swap_extension(const GUID *which, void **function)
{
    static const GUID accept_ex = WSAID_ACCEPTEX, sockaddrs = WSAID_GETACCEPTEXSOCKADDRS;
    if (IsEqualGUID(which, &accept_ex)) {
        real_AcceptEx = (LPFN_ACCEPTEX)*function;
        *function = (void *)mend_AcceptEx;
    } else if (IsEqualGUID(which, &sockaddrs)) {
        real_GetAcceptExSockaddrs = (LPFN_GETACCEPTEXSOCKADDRS)*function;
        *function = (void *)mend_GetAcceptExSockaddrs;
    }
}

int WSAAPI mend_WSAIoctl(SOCKET s, DWORD code, void *in, DWORD in_len, void *out, DWORD out_len, DWORD *returned,
                         WSAOVERLAPPED *overlapped, LPWSAOVERLAPPED_COMPLETION_ROUTINE routine)
{
    if (code == SIO_UDP_NETRESET_CODE) {
        // Linux never reports resets on a UDP socket that is not connected, which
        // is the behaviour that callers ask for here.
        if (returned) *returned = 0;
        return 0;
    }
    int result = real_WSAIoctl(s, code, in, in_len, out, out_len, returned, overlapped, routine);
    if (!result && code == SIO_GET_EXTENSION_FUNCTION_POINTER && in_len >= sizeof(GUID) && out_len >= sizeof(void *))
        swap_extension(in, out);
    return result;
}

BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void *reserved)
{
    (void)module;
    (void)reason;
    (void)reserved;
    return TRUE;
}
