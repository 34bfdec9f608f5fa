// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Who a program of a container runs as. Wine knows one user, an administrator
// with the SID S-1-5-21-0-0-0-1000. The process's Unix group says which Windows
// account it stands for (internal/wine/account.go has the same numbers); here
// the functions that tell a program about its account are made to name it.
//
// Fidelity: subset - access is still decided by Unix permissions, and the user's
// part of the registry keeps Wine's name (docs/fidelity/wine.md).

#include "winemend.h"

enum { LINUX_getgid_ = 104 };

// Values of SID_NAME_USE, winnt.h.
enum { USE_USER = 1, USE_ALIAS = 4, USE_GROUP = 5, USE_LABEL = 10 };

struct named_sid {
    struct sid sid;
    BYTE use;
    const WCHAR *domain, *name; // domain NULL: the computer
};

// What a token of an account holds. Members of groups and their attributes are
// those that `whoami /groups` shows in a Windows container.
enum {
    EVERYONE = 1,
    ADMINISTRATORS = 2,
    USERS = 4,
    SERVICE = 8,
    CONSOLE = 16,
    AUTHENTICATED = 32,
    ORGANIZATION = 64,
    LOCAL = 128,
};
static const struct named_sid groups[] = {
    {{1, 1, {0, 0, 0, 0, 0, 1}, {0}}, USE_GROUP, L"", L"Everyone"},
    {NT_SID(2, 32, 544), USE_ALIAS, L"BUILTIN", L"Administrators"},
    {NT_SID(2, 32, 545), USE_ALIAS, L"BUILTIN", L"Users"},
    {NT_SID(1, 6), USE_GROUP, L"NT AUTHORITY", L"SERVICE"},
    {{1, 1, {0, 0, 0, 0, 0, 2}, {1}}, USE_GROUP, L"", L"CONSOLE LOGON"},
    {NT_SID(1, 11), USE_GROUP, L"NT AUTHORITY", L"Authenticated Users"},
    {NT_SID(1, 15), USE_GROUP, L"NT AUTHORITY", L"This Organization"},
    {{1, 1, {0, 0, 0, 0, 0, 2}, {0}}, USE_GROUP, L"", L"LOCAL"},
};

// trusted_installer owns the files of Windows itself.
static const struct named_sid trusted_installer = {TRUSTED_INSTALLER, USE_GROUP, L"NT SERVICE", L"TrustedInstaller"};

static const struct named_sid labels[] = {
    {{1, 1, {0, 0, 0, 0, 0, 16}, {0x2000}}, USE_LABEL, L"Mandatory Label", L"Medium Mandatory Level"},
    {{1, 1, {0, 0, 0, 0, 0, 16}, {0x3000}}, USE_LABEL, L"Mandatory Label", L"High Mandatory Level"},
    {{1, 1, {0, 0, 0, 0, 0, 16}, {0x4000}}, USE_LABEL, L"Mandatory Label", L"System Mandatory Level"},
};
enum { MEDIUM, HIGH, SYSTEM_LEVEL };

struct account {
    unsigned gid;
    struct named_sid user;
    unsigned groups;
    int label;
    unsigned privileges; // bits of LUIDs; 0: Wine's own, an administrator's
    const WCHAR *profile;
};
#define LOGGED_ON (EVERYONE | USERS | SERVICE | CONSOLE | AUTHENTICATED | ORGANIZATION | LOCAL)
// LUIDs of privileges, winnt.h: SeAssignPrimaryToken 3, SeIncreaseQuota 5,
// SeAudit 21, SeChangeNotify 23, SeImpersonate 29, SeCreateGlobal 30.
#define PRIVILEGES_USER (1u << 23)
#define PRIVILEGES_SERVICE (1u << 3 | 1u << 5 | 1u << 21 | 1u << 23 | 1u << 29 | 1u << 30)

static const struct account accounts[] = {
    {64000, {NT_SID(3, 93, 2, 1), USE_USER, L"User Manager", L"ContainerAdministrator"}, LOGGED_ON | ADMINISTRATORS, HIGH, 0,
     L"C:\\Users\\ContainerAdministrator"},
    {64001, {NT_SID(3, 93, 2, 2), USE_USER, L"User Manager", L"ContainerUser"}, LOGGED_ON, MEDIUM, PRIVILEGES_USER,
     L"C:\\Users\\ContainerUser"},
    {64018, {NT_SID(1, 18), USE_USER, L"NT AUTHORITY", L"SYSTEM"}, ADMINISTRATORS | EVERYONE | AUTHENTICATED, SYSTEM_LEVEL, 0,
     L"C:\\Windows\\system32\\config\\systemprofile"},
    {64019, {NT_SID(1, 19), USE_USER, L"NT AUTHORITY", L"LOCAL SERVICE"}, LOGGED_ON, SYSTEM_LEVEL, PRIVILEGES_SERVICE,
     L"C:\\Windows\\ServiceProfiles\\LocalService"},
    {64020, {NT_SID(1, 20), USE_USER, L"NT AUTHORITY", L"NETWORK SERVICE"}, LOGGED_ON, SYSTEM_LEVEL, PRIVILEGES_SERVICE,
     L"C:\\Windows\\ServiceProfiles\\NetworkService"},
    {64050, {NT_SID(5, 21, 0, 0, 0, 500), USE_USER, NULL, L"Administrator"}, LOGGED_ON | ADMINISTRATORS, HIGH, 0,
     L"C:\\Users\\Administrator"},
};
// Wine's only user, whose SID is in the descriptors of all files.
static const struct sid wine_user = NT_SID(5, 21, 0, 0, 0, 1000);

// A user that the container runtime made for one HostProcess container, as a
// member of a group of the host.
static WCHAR local_name[32] = L"user", local_profile[48] = L"C:\\Users\\user";
static const struct account local_accounts[] = {
    {64060, {NT_SID(5, 21, 0, 0, 0, 1001), USE_USER, NULL, local_name}, LOGGED_ON, HIGH, PRIVILEGES_USER, local_profile},
    {64061, {NT_SID(5, 21, 0, 0, 0, 1001), USE_USER, NULL, local_name}, LOGGED_ON | ADMINISTRATORS, HIGH, 0, local_profile},
};

static const struct account *self;

BOOL identity_known(void) { return self != NULL; }

BOOL identity_limited(void) { return self && !(self->groups & ADMINISTRATORS); }

static NTSTATUS(NTAPI *real_NtQueryInformationToken)(HANDLE, ULONG, void *, ULONG, ULONG *);

NTSYSAPI NTSTATUS NTAPI RtlConvertSidToUnicodeString(UNICODE_STRING *, void *, BOOLEAN);

// writer lays structures and SIDs into a caller's buffer, of which it may be
// that there is not enough.
struct writer {
    char *base;
    ULONG size, used;
};

static void *take(struct writer *w, ULONG bytes)
{
    ULONG at = (w->used + 7) & ~7UL;
    w->used = at + bytes;
    return w->used <= w->size ? w->base + at : NULL;
}

static void put_sid(struct writer *w, const struct sid *s, void **pointer)
{
    void *to = take(w, SID_SIZE(s));
    if (!to) return;
    memcpy(to, s, SID_SIZE(s));
    *pointer = to;
}

static void put_user(struct writer *w, const struct sid *s, ULONG attributes)
{
    SID_AND_ATTRIBUTES *head = take(w, sizeof(*head)), spare;
    if (!head) head = &spare;
    head->Attributes = attributes;
    put_sid(w, s, &head->Sid);
}

// mandatory, enabled by default, enabled; SE_GROUP_* of winnt.h.
#define GROUP_ON 7
#define GROUP_OWNER 8
#define GROUP_INTEGRITY 0x60

static void put_groups(struct writer *w)
{
    ULONG n = 1;
    for (ULONG i = 0; i < ARRAYSIZE(groups); i++) n += (self->groups >> i) & 1;
    TOKEN_GROUPS *head = take(w, 8 + n * (ULONG)sizeof(SID_AND_ATTRIBUTES));
    ULONG at = 0;
    for (ULONG i = 0; i <= ARRAYSIZE(groups); i++) {
        BOOL label = i == ARRAYSIZE(groups);
        if (!label && !((self->groups >> i) & 1)) continue;
        const struct sid *s = label ? &labels[self->label].sid : &groups[i].sid;
        void *pointer = NULL;
        put_sid(w, s, &pointer);
        if (!head) continue;
        head->Groups[at].Sid = pointer;
        head->Groups[at++].Attributes =
            label ? GROUP_INTEGRITY : GROUP_ON | (1u << i == ADMINISTRATORS ? GROUP_OWNER : 0);
    }
    if (head) head->GroupCount = at;
}

static NTSTATUS keep_privileges(TOKEN_PRIVILEGES *p, ULONG len, ULONG *need)
{
    if (!self->privileges || len < sizeof(DWORD)) return STATUS_SUCCESS;
    DWORD n = 0;
    for (DWORD i = 0; i < p->PrivilegeCount; i++) {
        DWORD luid = p->Privileges[i].Luid.LowPart;
        if (luid < 32 && (self->privileges >> luid & 1)) p->Privileges[n++] = p->Privileges[i];
    }
    p->PrivilegeCount = n;
    if (need) *need = sizeof(DWORD) + n * (DWORD)sizeof(LUID_AND_ATTRIBUTES);
    return STATUS_SUCCESS;
}

static BOOL is_sid(const void *a, const struct sid *b) { return !memcmp(a, b, SID_SIZE(b)); }

static NTSTATUS NTAPI mend_NtQueryInformationToken(HANDLE token, ULONG class, void *out, ULONG len, ULONG *need)
{
    // TokenUser .. TokenPrimaryGroup, TokenElevation, TokenIntegrityLevel
    if (!(class >= 1 && class <= 5) && class != 20 && class != 25)
        return real_NtQueryInformationToken(token, class, out, len, need);
    char user[sizeof(TOKEN_USER) + sizeof(struct sid) + 64];
    ULONG got;
    NTSTATUS status = real_NtQueryInformationToken(token, 1, user, sizeof(user), &got);
    if (status || !is_sid(((TOKEN_USER *)user)->User.Sid, &wine_user))
        return real_NtQueryInformationToken(token, class, out, len, need); // an error, or another's token
    struct writer w = {out, out ? len : 0, 0};
    const struct sid *s;
    switch (class) {
    case 1: put_user(&w, &self->user.sid, 0); break;
    case 2: put_groups(&w); break;
    case 3:
        status = real_NtQueryInformationToken(token, class, out, len, need);
        return status ? status : keep_privileges(out, len, need);
    case 4:
    case 5: {
        s = class == 4 && (self->groups & ADMINISTRATORS) ? &groups[1].sid : &self->user.sid;
        void **pointer = take(&w, sizeof(void *)), *spare;
        put_sid(&w, s, pointer ? pointer : &spare);
        break;
    }
    case 20: {
        DWORD *elevated = take(&w, sizeof(DWORD));
        if (elevated) *elevated = (self->groups & ADMINISTRATORS) != 0;
        break;
    }
    case 25: put_user(&w, &labels[self->label].sid, GROUP_INTEGRITY); break;
    }
    if (need) *need = w.used;
    return w.used <= w.size ? STATUS_SUCCESS : STATUS_BUFFER_TOO_SMALL;
}

// The user's registry lies where Wine's server loads it, whatever the token
// says.
static NTSTATUS NTAPI mend_RtlFormatCurrentUserKeyPath(UNICODE_STRING *path)
{
    static const WCHAR key[] = L"\\Registry\\User\\S-1-5-21-0-0-0-1000";
    WCHAR *copy = alloc_mem(sizeof(key));
    if (!copy) return STATUS_NO_MEMORY;
    memcpy(copy, key, sizeof(key));
    path->Buffer = copy;
    path->Length = sizeof(key) - sizeof(WCHAR);
    path->MaximumLength = sizeof(key);
    return STATUS_SUCCESS;
}

static DWORD length(const WCHAR *s)
{
    DWORD n = 0;
    while (s[n]) n++;
    return n;
}

static const WCHAR *domain_of(const struct named_sid *s, WCHAR *computer, DWORD size)
{
    if (s->domain) return s->domain;
    BOOL(WINAPI * get)(WCHAR *, DWORD *) = find_function(L"kernelbase.dll", "GetComputerNameW");
    if (!get) get = find_function(L"kernel32.dll", "GetComputerNameW");
    computer[0] = 0;
    if (get) get(computer, &size);
    return computer;
}

#define COMPUTER_SIZE 64

// give puts a text into a buffer of *size characters. Otherwise *size becomes
// what it takes.
static BOOL give(const WCHAR *text, WCHAR *to, DWORD *size, BOOL count_zero)
{
    DWORD n = length(text);
    BOOL fits = to && *size > n;
    if (fits) memcpy(to, text, (n + 1) * sizeof(WCHAR));
    *size = fits && !count_zero ? n : n + 1;
    return fits;
}

static BOOL WINAPI mend_GetUserNameW(WCHAR *name, DWORD *size)
{
    if (!size) {
        RtlSetLastWin32Error(ERROR_INVALID_PARAMETER);
        return FALSE;
    }
    BOOL ok = give(self->user.name, name, size, TRUE);
    if (!ok) RtlSetLastWin32Error(ERROR_INSUFFICIENT_BUFFER);
    return ok;
}

// Names of accounts are ASCII.
static BOOL WINAPI mend_GetUserNameA(char *name, DWORD *size)
{
    DWORD n = length(self->user.name) + 1;
    if (!size) {
        RtlSetLastWin32Error(ERROR_INVALID_PARAMETER);
        return FALSE;
    }
    BOOL fits = name && *size >= n;
    for (DWORD i = 0; fits && i < n; i++) name[i] = (char)self->user.name[i];
    *size = n;
    if (!fits) RtlSetLastWin32Error(ERROR_INSUFFICIENT_BUFFER);
    return fits;
}

// join makes DOMAIN\NAME.
static void join(WCHAR *out, const struct named_sid *s)
{
    WCHAR computer[COMPUTER_SIZE];
    const WCHAR *domain = domain_of(s, computer, COMPUTER_SIZE);
    DWORD n = length(domain), m = length(s->name);
    memcpy(out, domain, n * sizeof(WCHAR));
    out[n] = '\\';
    memcpy(out + n + 1, s->name, (m + 1) * sizeof(WCHAR));
}

static BOOLEAN WINAPI mend_GetUserNameExW(int format, WCHAR *name, ULONG *size)
{
    WCHAR full[COMPUTER_SIZE + 64];
    if (!size || format != 2) { // NameSamCompatible: the only form without a domain controller
        RtlSetLastWin32Error(size ? ERROR_NONE_MAPPED : ERROR_INVALID_PARAMETER);
        return FALSE;
    }
    join(full, &self->user);
    DWORD n = *size;
    BOOL ok = give(full, name, &n, FALSE);
    *size = n;
    if (!ok) RtlSetLastWin32Error(ERROR_MORE_DATA);
    return (BOOLEAN)ok;
}

static BOOL WINAPI mend_GetUserProfileDirectoryW(HANDLE token, WCHAR *dir, DWORD *size)
{
    (void)token;
    if (!size) {
        RtlSetLastWin32Error(ERROR_INVALID_PARAMETER);
        return FALSE;
    }
    BOOL ok = give(self->profile, dir, size, TRUE);
    if (!ok) RtlSetLastWin32Error(ERROR_INSUFFICIENT_BUFFER);
    return ok;
}

// Wine's refuses the question for the size.
static BOOL WINAPI mend_GetUserProfileDirectoryA(HANDLE token, char *dir, DWORD *size)
{
    WCHAR wide[MAX_PATH];
    DWORD n = ARRAYSIZE(wide);
    if (!size) {
        RtlSetLastWin32Error(ERROR_INVALID_PARAMETER);
        return FALSE;
    }
    if (!mend_GetUserProfileDirectoryW(token, wide, &n)) return FALSE;
    BOOL fits = dir && *size >= n;
    for (DWORD i = 0; fits && i < n; i++) dir[i] = (char)wide[i]; // the names of accounts are ASCII
    *size = n;
    if (!fits) RtlSetLastWin32Error(ERROR_INSUFFICIENT_BUFFER);
    return fits;
}

static BOOL(WINAPI *real_LookupAccountSidW)(const WCHAR *, void *, WCHAR *, DWORD *, WCHAR *, DWORD *, DWORD *);
static BOOL(WINAPI *real_LookupAccountNameW)(const WCHAR *, const WCHAR *, void *, DWORD *, WCHAR *, DWORD *, DWORD *);

static const struct named_sid *by_sid(const void *sid)
{
    if (is_sid(sid, &wine_user) || is_sid(sid, &self->user.sid)) return &self->user;
    for (ULONG i = 0; i < ARRAYSIZE(accounts); i++)
        if (is_sid(sid, &accounts[i].user.sid)) return &accounts[i].user;
    for (ULONG i = 0; i < ARRAYSIZE(groups); i++)
        if (is_sid(sid, &groups[i].sid)) return &groups[i];
    for (ULONG i = 0; i < ARRAYSIZE(labels); i++)
        if (is_sid(sid, &labels[i].sid)) return &labels[i];
    return is_sid(sid, &trusted_installer.sid) ? &trusted_installer : NULL;
}

static BOOL WINAPI mend_LookupAccountSidW(const WCHAR *system, void *sid, WCHAR *name, DWORD *name_size, WCHAR *domain,
                                          DWORD *domain_size, DWORD *use)
{
    const struct named_sid *s = sid && name_size && domain_size ? by_sid(sid) : NULL;
    if (!s) return real_LookupAccountSidW(system, sid, name, name_size, domain, domain_size, use);
    WCHAR computer[COMPUTER_SIZE];
    const WCHAR *authority = domain_of(s, computer, COMPUTER_SIZE);
    BOOL fits = *name_size > length(s->name) && *domain_size > length(authority) && name && domain;
    DWORD none = 0;
    if (!fits) { // both sizes, with the zero
        *name_size = *domain_size = none;
        give(s->name, NULL, name_size, TRUE);
        give(authority, NULL, domain_size, TRUE);
        RtlSetLastWin32Error(ERROR_INSUFFICIENT_BUFFER);
        return FALSE;
    }
    give(s->name, name, name_size, FALSE);
    give(authority, domain, domain_size, FALSE);
    if (use) *use = s->use;
    return TRUE;
}

static BOOL equal(const WCHAR *a, const WCHAR *b)
{
    while (*a && RtlUpcaseUnicodeChar(*a) == RtlUpcaseUnicodeChar(*b)) a++, b++;
    return !*a && !*b;
}

// by_name finds one of the container's own accounts; Wine knows the others.
static const struct named_sid *by_name(const WCHAR *name)
{
    WCHAR full[COMPUTER_SIZE + 64];
    for (ULONG i = 0; i <= ARRAYSIZE(accounts) + 1; i++) {
        const struct named_sid *s = i < ARRAYSIZE(accounts)    ? &accounts[i].user
                                    : i == ARRAYSIZE(accounts) ? &self->user
                                                               : &trusted_installer;
        join(full, s);
        if (equal(name, s->name) || equal(name, full)) return s;
    }
    return NULL;
}

static BOOL WINAPI mend_LookupAccountNameW(const WCHAR *system, const WCHAR *name, void *sid, DWORD *sid_size,
                                           WCHAR *domain, DWORD *domain_size, DWORD *use)
{
    const struct named_sid *s = name && sid_size && domain_size ? by_name(name) : NULL;
    if (!s) return real_LookupAccountNameW(system, name, sid, sid_size, domain, domain_size, use);
    WCHAR computer[COMPUTER_SIZE];
    const WCHAR *authority = domain_of(s, computer, COMPUTER_SIZE);
    ULONG bytes = SID_SIZE(&s->sid);
    BOOL fits = sid && *sid_size >= bytes && domain && *domain_size > length(authority);
    if (fits) memcpy(sid, &s->sid, bytes);
    if (!fits) *domain_size = 0;
    *sid_size = bytes;
    give(authority, fits ? domain : NULL, domain_size, !fits);
    if (use) *use = s->use;
    if (!fits) RtlSetLastWin32Error(ERROR_INSUFFICIENT_BUFFER);
    return fits;
}

// loaded patches a DLL before its DllMain runs.
static void CALLBACK loaded(ULONG reason, const struct dll_notification *data, void *context)
{
    (void)context;
    static const UNICODE_STRING advapi = {24, 26, L"advapi32.dll"}, secur = {22, 24, L"secur32.dll"},
                                userenv = {22, 24, L"userenv.dll"};
    if (reason != 1) return;
    if (RtlEqualUnicodeString(data->base_name, &advapi, TRUE)) {
        replace_function(advapi.Buffer, "GetUserNameW", (void *)mend_GetUserNameW);
        replace_function(advapi.Buffer, "GetUserNameA", (void *)mend_GetUserNameA);
        real_LookupAccountSidW = hook_function(advapi.Buffer, "LookupAccountSidW", (void *)mend_LookupAccountSidW);
        real_LookupAccountNameW = hook_function(advapi.Buffer, "LookupAccountNameW", (void *)mend_LookupAccountNameW);
    } else if (RtlEqualUnicodeString(data->base_name, &secur, TRUE)) {
        replace_function(secur.Buffer, "GetUserNameExW", (void *)mend_GetUserNameExW);
    } else if (RtlEqualUnicodeString(data->base_name, &userenv, TRUE)) {
        replace_function(userenv.Buffer, "GetUserProfileDirectoryW", (void *)mend_GetUserProfileDirectoryW);
        replace_function(userenv.Buffer, "GetUserProfileDirectoryA", (void *)mend_GetUserProfileDirectoryA);
    }
}

// read_local_name takes the name from the environment of the Linux process, which
// programs do not see and children have too: no more than a name is at stake.
static void read_local_name(void)
{
    static const char variable[] = "MULLION_USER=";
    const SIZE_T head = sizeof(variable) - 1;
    char chunk[512];
    SIZE_T at = 0; // characters of the current entry that matched, or were taken
    BOOL other = FALSE;
    long long n, fd = linux_call(LINUX_open, (long long)"/proc/self/environ", LINUX_O_CLOEXEC, 0, 0, 0);
    if (fd < 0) return;
    while ((n = linux_call(LINUX_read, fd, (long long)chunk, sizeof(chunk), 0, 0)) > 0) {
        for (long long i = 0; i < n; i++) {
            char c = chunk[i];
            if (!other && at >= head && at - head < ARRAYSIZE(local_name)) {
                local_name[at - head] = (unsigned char)c;
                local_profile[9 + at - head] = (unsigned char)c;
            }
            other |= at < head && c != variable[at];
            at++;
            if (!c) {
                if (!other && at > head) goto done;
                at = 0;
                other = FALSE;
            }
        }
    }
done:
    linux_call(LINUX_close, fd, 0, 0, 0, 0);
    local_name[ARRAYSIZE(local_name) - 1] = 0;
}

BOOL mend_identity(void)
{
    void *cookie;
    unsigned gid = (unsigned)linux_call(LINUX_getgid_, 0, 0, 0, 0, 0);
    for (ULONG i = 0; i < ARRAYSIZE(accounts); i++)
        if (accounts[i].gid == gid) self = &accounts[i];
    for (ULONG i = 0; i < ARRAYSIZE(local_accounts); i++)
        if (local_accounts[i].gid == gid) self = &local_accounts[i];
    if (self >= local_accounts && self < local_accounts + ARRAYSIZE(local_accounts)) read_local_name();
    if (!self) return TRUE; // a program of the host: Wine's user
    if (!replace_function(L"ntdll.dll", "RtlFormatCurrentUserKeyPath", (void *)mend_RtlFormatCurrentUserKeyPath)) return FALSE;
    real_NtQueryInformationToken = hook_syscall("NtQueryInformationToken", (void *)mend_NtQueryInformationToken);
    return real_NtQueryInformationToken && !LdrRegisterDllNotification(0, loaded, NULL, &cookie);
}

BOOL identity_is(const struct sid *sid)
{
    if (!self) return is_sid(sid, &wine_user) || is_sid(sid, &groups[1].sid);
    if (is_sid(sid, &self->user.sid)) return TRUE;
    for (ULONG i = 0; i < ARRAYSIZE(groups); i++)
        if ((self->groups >> i & 1) && is_sid(sid, &groups[i].sid)) return TRUE;
    return FALSE;
}

// identity_closes: an ordinary user makes directories in C:\, but no files,
// which Unix permissions cannot tell apart.
BOOL identity_closes(const OBJECT_ATTRIBUTES *attr, ULONG disposition, ULONG options)
{
    char path[PATH_SIZE];
    struct linux_stat st;
    if (!identity_limited() || disposition == FILE_OPEN || disposition == FILE_OVERWRITE || (options & FILE_DIRECTORY_FILE) ||
        !attr || !unix_path(attr, path) || !linux_call(LINUX_lstat, (long long)path, (long long)&st, 0, 0, 0))
        return FALSE;
    SIZE_T slash = 0;
    for (SIZE_T i = 0; path[i]; i++)
        if (path[i] == '/') slash = i;
    static const char drive[] = "/dosdevices/c:";
    SIZE_T n = sizeof(drive) - 1;
    return slash >= n && !memcmp(path + slash - n, drive, n);
}
