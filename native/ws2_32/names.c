// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Names as Windows resolves them. Wine passes a name on to Linux' C library,
// which tries the suffix for every name that was not found. In a Windows pod a
// name with a dot is complete:
// https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#dns-windows, read 2026-11.
// And C:\Windows\System32\drivers\etc\hosts comes first, also where Linux' own
// hosts file is another one.

#define WIN32_LEAN_AND_MEAN
#include <winsock2.h>
#include <ws2tcpip.h>
#include <windows.h>

DECLSPEC_IMPORT int WSAAPI real_getaddrinfo(const char *, const char *, const struct addrinfo *, struct addrinfo **);
DECLSPEC_IMPORT int WSAAPI real_GetAddrInfoW(const WCHAR *, const WCHAR *, const ADDRINFOW *, ADDRINFOW **);
DECLSPEC_IMPORT int WSAAPI real_GetAddrInfoExW(const WCHAR *, const WCHAR *, DWORD, GUID *, const ADDRINFOEXW *,
                                               ADDRINFOEXW **, struct timeval *, OVERLAPPED *,
                                               LPLOOKUPSERVICE_COMPLETION_ROUTINE, HANDLE *);
DECLSPEC_IMPORT int WSAAPI real_gethostname(char *, int);
DECLSPEC_IMPORT struct hostent *WSAAPI real_gethostbyname(const char *);

enum {
    NAME_SIZE = 256,       // of a name of DNS with the zero
    HOSTS_SIZE = 256 << 10 // of the hosts file; what lies beyond it is not read
};

static BOOL is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// next_word cuts the next word of a line; FALSE at its end or at a comment.
static BOOL next_word(const char **at, const char *end, const char **word, int *len)
{
    while (*at < end && is_space(**at)) (*at)++;
    if (*at == end || **at == '#') return FALSE;
    *word = *at;
    while (*at < end && !is_space(**at) && **at != '#') (*at)++;
    *len = (int)(*at - *word);
    return TRUE;
}

static BOOL same_name(const char *a, int len, const char *name)
{
    return CompareStringA(LOCALE_INVARIANT, NORM_IGNORECASE, a, len, name, -1) == CSTR_EQUAL;
}

static BOOL has(const char *text, int len, char c)
{
    for (int i = 0; i < len; i++)
        if (text[i] == c) return TRUE;
    return FALSE;
}

// in_line returns the address if the line of the hosts file is about the name.
static BOOL in_line(const char *at, const char *end, const char *name, int family, char address[NAME_SIZE])
{
    const char *word, *first;
    int len, first_len;
    if (!next_word(&at, end, &first, &first_len) || first_len >= NAME_SIZE) return FALSE;
    int is = has(first, first_len, ':') ? AF_INET6 : AF_INET;
    if (family != AF_UNSPEC && family != is) return FALSE;
    while (next_word(&at, end, &word, &len)) {
        if (!same_name(word, len, name)) continue;
        CopyMemory(address, first, first_len);
        address[first_len] = 0;
        return TRUE;
    }
    return FALSE;
}

static BOOL in_hosts(const char *name, int family, char address[NAME_SIZE])
{
    HANDLE file = CreateFileW(L"C:\\Windows\\System32\\drivers\\etc\\hosts", GENERIC_READ,
                              FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE_VALUE) return FALSE;
    DWORD size = GetFileSize(file, NULL), got = 0;
    if (size > HOSTS_SIZE) size = HOSTS_SIZE;
    char *text = HeapAlloc(GetProcessHeap(), 0, size + 1);
    BOOL found = FALSE;
    if (text && ReadFile(file, text, size, &got, NULL)) {
        const char *at = text, *end = text + got;
        while (at < end && !found) {
            const char *line = at;
            while (at < end && *at != '\n') at++;
            found = in_line(line, at, name, family, address);
            if (at < end) at++;
        }
    }
    if (text) HeapFree(GetProcessHeap(), 0, text);
    CloseHandle(file);
    return found;
}

// is_address: an IPv4 or IPv6 address, which is not looked up.
static BOOL is_address(const char *name)
{
    for (; *name; name++) {
        if (*name == ':') return TRUE;
        if (*name != '.' && (*name < '0' || *name > '9')) return FALSE;
    }
    return TRUE;
}

// own_name: localhost and the computer itself, which Linux' file has.
static BOOL own_name(const char *name)
{
    char own[NAME_SIZE];
    if (same_name(name, lstrlenA(name), "localhost")) return TRUE;
    return !real_gethostname(own, NAME_SIZE) && same_name(name, lstrlenA(name), own);
}

// complete returns the name to ask Linux' C library for: the address that the
// hosts file has, or the name with a dot at its end, or the name itself.
static const char *complete(const char *name, int family, int flags, char buf[NAME_SIZE])
{
    int len = name ? lstrlenA(name) : 0;
    if (len == 0 || len >= NAME_SIZE - 1 || is_address(name) || name[len - 1] == '.' || own_name(name)) return name;
    // The canonical name of an address would be the address.
    if (in_hosts(name, family, buf)) return flags & AI_CANONNAME ? name : buf;
    if (!has(name, len, '.')) return name;
    CopyMemory(buf, name, len);
    buf[len] = '.';
    buf[len + 1] = 0;
    return buf;
}

static const WCHAR *complete_wide(const WCHAR *name, int family, int flags, WCHAR wide[NAME_SIZE])
{
    char text[NAME_SIZE], buf[NAME_SIZE];
    if (!name || !WideCharToMultiByte(CP_UTF8, 0, name, -1, text, NAME_SIZE, NULL, NULL)) return name;
    const char *full = complete(text, family, flags, buf);
    if (full == text || !MultiByteToWideChar(CP_UTF8, 0, full, -1, wide, NAME_SIZE)) return name;
    return wide;
}

int WSAAPI mend_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **info)
{
    char buf[NAME_SIZE];
    const char *full = complete(node, hints ? hints->ai_family : AF_UNSPEC, hints ? hints->ai_flags : 0, buf);
    int err = real_getaddrinfo(full, service, hints, info);
    // The computer has no domain: what the hosts file has behind its name is that
    // of the pod. wineboot asks, and writes it into the registry.
    if (!err && *info && (*info)->ai_canonname && own_name(node)) {
        char *end = (*info)->ai_canonname;
        while (*end && *end != '.') end++;
        *end = 0;
    }
    return err;
}

int WSAAPI mend_GetAddrInfoW(const WCHAR *node, const WCHAR *service, const ADDRINFOW *hints, ADDRINFOW **info)
{
    WCHAR buf[NAME_SIZE];
    node = complete_wide(node, hints ? hints->ai_family : AF_UNSPEC, hints ? hints->ai_flags : 0, buf);
    return real_GetAddrInfoW(node, service, hints, info);
}

int WSAAPI mend_GetAddrInfoExW(const WCHAR *name, const WCHAR *service, DWORD space, GUID *id, const ADDRINFOEXW *hints,
                               ADDRINFOEXW **info, struct timeval *timeout, OVERLAPPED *overlapped,
                               LPLOOKUPSERVICE_COMPLETION_ROUTINE routine, HANDLE *handle)
{
    WCHAR buf[NAME_SIZE];
    name = complete_wide(name, hints ? hints->ai_family : AF_UNSPEC, hints ? hints->ai_flags : 0, buf);
    return real_GetAddrInfoExW(name, service, space, id, hints, info, timeout, overlapped, routine, handle);
}

struct hostent *WSAAPI mend_gethostbyname(const char *name)
{
    char buf[NAME_SIZE];
    return real_gethostbyname(complete(name, AF_INET, AI_CANONNAME, buf));
}
