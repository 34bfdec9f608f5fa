// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Security descriptors of files. Wine makes one up from the Unix permissions and
// keeps of a new one what fits into them. Here the entries that a program set are
// kept with the file, and all others are those that NTFS would have passed down
// from the directories above: a file inherits what they pass on at the time of the
// question, so that a change of a directory reaches what lies in it, as
// SetNamedSecurityInfo on Windows makes it do.
//
// Fidelity: subset - access is still decided by Unix permissions. Those that a
// container's file has for others than its owner follow what a program sets for it;
// what lies below a directory keeps its own (docs/fidelity/cri.md).

#include "winemend.h"

// ATTRIBUTE holds a self-relative security descriptor without inherited entries.
// It inherits if its control says SE_DACL_AUTO_INHERITED.
#define ATTRIBUTE "user.mullion.sd"
#define MAX_DESCRIPTOR 4096
#define MAX_ENTRIES 64

struct entry {
    BYTE type, flags; // of ACE_HEADER
    ULONG mask;
    struct sid sid;
};

struct list {
    ULONG count;
    struct entry entries[MAX_ENTRIES];
};

struct security {
    struct sid owner, group;
    USHORT control; // SE_DACL_PROTECTED, SE_DACL_AUTO_INHERITED
    struct list list;
};

static NTSTATUS(NTAPI *real_NtQuerySecurityObject)(HANDLE, SECURITY_INFORMATION, SECURITY_DESCRIPTOR *, ULONG, ULONG *);
static NTSTATUS(NTAPI *real_NtSetSecurityObject)(HANDLE, SECURITY_INFORMATION, SECURITY_DESCRIPTOR *);

NTSYSAPI NTSTATUS NTAPI RtlGetControlSecurityDescriptor(SECURITY_DESCRIPTOR *, SECURITY_DESCRIPTOR_CONTROL *, ULONG *);
NTSYSAPI NTSTATUS NTAPI RtlGetOwnerSecurityDescriptor(SECURITY_DESCRIPTOR *, void **, BOOLEAN *);
NTSYSAPI NTSTATUS NTAPI RtlGetGroupSecurityDescriptor(SECURITY_DESCRIPTOR *, void **, BOOLEAN *);
NTSYSAPI NTSTATUS NTAPI RtlGetDaclSecurityDescriptor(SECURITY_DESCRIPTOR *, BOOLEAN *, ACL **, BOOLEAN *);
NTSYSAPI NTSTATUS NTAPI RtlMakeSelfRelativeSD(SECURITY_DESCRIPTOR *, SECURITY_DESCRIPTOR *, ULONG *);
NTSYSAPI BOOLEAN NTAPI RtlValidSid(void *);

#define OI OBJECT_INHERIT_ACE
#define CI CONTAINER_INHERIT_ACE
#define IO INHERIT_ONLY_ACE
#define FULL 0x1f01ff
#define MODIFY 0x1301bf
#define READ_EXECUTE 0x1200a9
#define GENERIC_READ_EXECUTE 0xa0000000

#define SYSTEM_SID NT_SID(1, 18)
#define ADMINISTRATORS_SID NT_SID(2, 32, 544)
#define USERS_SID NT_SID(2, 32, 545)
#define CREATOR_OWNER_SID {1, 1, {0, 0, 0, 0, 0, 3}, {0}}
#define EVERYONE_SID {1, 1, {0, 0, 0, 0, 0, 1}, {0}}

static const struct sid system_sid = SYSTEM_SID, administrators = ADMINISTRATORS_SID, users = USERS_SID,
                        creator_owner = CREATOR_OWNER_SID, everyone = EVERYONE_SID, installer = TRUSTED_INSTALLER,
                        authenticated = NT_SID(1, 11), container_user = NT_SID(3, 93, 2, 2),
                        container_administrator = NT_SID(3, 93, 2, 1);

// What C:\ of Windows Server has. Volumes of pods are directories of the host, so
// what they inherit is this: kubernetes.io, "Projected Volumes", SecurityContext
// interactions on Windows, shows D:AI(A;ID;FA;;;SY)(A;ID;FA;;;BA)(A;ID;0x1200a9;;;BU).
static const struct list host_root = {6, {
    {0, OI | CI, FULL, SYSTEM_SID},
    {0, OI | CI, FULL, ADMINISTRATORS_SID},
    {0, OI | CI, READ_EXECUTE, USERS_SID},
    {0, CI, FILE_APPEND_DATA, USERS_SID},
    {0, CI | IO, FILE_WRITE_DATA, USERS_SID},
    {0, OI | CI | IO, GENERIC_ALL, CREATOR_OWNER_SID},
}};

// What `icacls C:\` prints in mcr.microsoft.com/windows/servercore:ltsc2022:
// github.com/moby/buildkit/issues/4731.
static const struct list container_root = {7, {
    {0, OI | CI, FULL, ADMINISTRATORS_SID},
    {0, OI | CI, FULL, SYSTEM_SID},
    {0, OI | CI | IO, GENERIC_ALL, CREATOR_OWNER_SID},
    {0, OI | CI, READ_EXECUTE, USERS_SID},
    {0, CI, FILE_APPEND_DATA, USERS_SID},
    {0, CI | IO, FILE_WRITE_DATA, USERS_SID},
    {0, 0, READ_EXECUTE, EVERYONE_SID},
}};

// Directories of Windows with entries of their own: learn.microsoft.com, "Default
// security settings" of %SystemRoot% and Program Files (the entries for packages of
// applications are left out), of ProgramData and of Users.
static const struct list system_tree = {9, {
    {0, 0, FULL, TRUSTED_INSTALLER},
    {0, CI | IO, GENERIC_ALL, TRUSTED_INSTALLER},
    {0, 0, MODIFY, SYSTEM_SID},
    {0, OI | CI | IO, GENERIC_ALL, SYSTEM_SID},
    {0, 0, MODIFY, ADMINISTRATORS_SID},
    {0, OI | CI | IO, GENERIC_ALL, ADMINISTRATORS_SID},
    {0, 0, READ_EXECUTE, USERS_SID},
    {0, OI | CI | IO, GENERIC_READ_EXECUTE, USERS_SID},
    {0, OI | CI | IO, GENERIC_ALL, CREATOR_OWNER_SID},
}};
static const struct list program_data = {5, {
    {0, OI | CI, FULL, SYSTEM_SID},
    {0, OI | CI, FULL, ADMINISTRATORS_SID},
    {0, OI | CI | IO, GENERIC_ALL, CREATOR_OWNER_SID},
    {0, OI | CI, READ_EXECUTE, USERS_SID},
    {0, CI, FILE_WRITE_DATA | FILE_APPEND_DATA | FILE_WRITE_EA | FILE_WRITE_ATTRIBUTES, USERS_SID},
}};
static const struct list users_root = {6, {
    {0, OI | CI, FULL, SYSTEM_SID},
    {0, OI | CI, FULL, ADMINISTRATORS_SID},
    {0, 0, READ_EXECUTE, USERS_SID},
    {0, OI | CI | IO, GENERIC_READ_EXECUTE, USERS_SID},
    {0, 0, READ_EXECUTE, EVERYONE_SID},
    {0, OI | CI | IO, GENERIC_READ_EXECUTE, EVERYONE_SID},
}};
static const struct list windows_temp = {4, {
    {0, OI | CI | IO, GENERIC_ALL, CREATOR_OWNER_SID},
    {0, OI | CI, FULL, SYSTEM_SID},
    {0, OI | CI, FULL, ADMINISTRATORS_SID},
    {0, CI, FILE_WRITE_DATA | FILE_APPEND_DATA | FILE_EXECUTE | SYNCHRONIZE, USERS_SID},
}};

static const struct {
    const char *path; // below C:\, in lower case
    const struct sid *owner;
    const struct list *list;
} known[] = {
    {"windows", &installer, &system_tree},
    {"program files", &installer, &system_tree},
    {"program files (x86)", &installer, &system_tree},
    {"programdata", &system_sid, &program_data},
    {"users", &system_sid, &users_root},
    {"windows/temp", &system_sid, &windows_temp},
};

static BOOL is_same(const struct sid *a, const struct sid *b) { return !memcmp(a, b, SID_SIZE(b)); }

static int text_length(const char *s)
{
    int n = 0;
    while (s[n]) n++;
    return n;
}

// in_container reports whether drive C is a container's, of which nothing is shared
// with other containers.
static BOOL in_container(void)
{
    return is_drive_root("/.wine/dosdevices/c:");
}

// as_root ends the path of drive C's root with a slash: it is a link otherwise.
static const char *as_root(const char *path, char buffer[PATH_SIZE])
{
    int n = text_length(path);
    if (!is_drive_root(path) || path[n - 1] == '/' || n + 2 > PATH_SIZE) return path;
    memcpy(buffer, path, (SIZE_T)n);
    buffer[n] = '/';
    buffer[n + 1] = 0;
    return buffer;
}

// account_of returns the account's user on disk, from 64000 on, for a user of a pod. Each pod has 32
// above 65535, in the same order (internal/cri/server/ids.go).
static unsigned account_of(unsigned uid) { return uid > 65535 ? 64000 + uid % 32 : uid; }

static BOOL stat_file(const char *path, struct linux_stat *st)
{
    char buffer[PATH_SIZE];
    if (linux_call(LINUX_stat, (long long)as_root(path, buffer), (long long)st, 0, 0, 0)) return FALSE;
    st->uid = account_of(st->uid);
    return TRUE;
}

// mount_of returns the mount that a file lies in; zero if the kernel does not tell.
static unsigned long long mount_of(const char *path)
{
    enum { AT_FDCWD = -100, AT_SYMLINK_NOFOLLOW = 0x100, STATX_MNT_ID = 0x1000 };
    struct {
        unsigned mask, words[35];
        unsigned long long mount, spare[13];
    } statx;
    char buffer[PATH_SIZE];
    if (linux_call(LINUX_statx, AT_FDCWD, (long long)as_root(path, buffer), AT_SYMLINK_NOFOLLOW, STATX_MNT_ID,
                   (long long)&statx) ||
        !(statx.mask & STATX_MNT_ID))
        return 0;
    return statx.mount;
}

static BOOL copy_sid(const void *from, struct sid *to)
{
    const struct sid *s = from;
    if (!s || !RtlValidSid((void *)s) || s->count > ARRAYSIZE(to->sub)) return FALSE;
    memcpy(to, s, SID_SIZE(s));
    return TRUE;
}

static void add(struct list *l, BYTE type, BYTE flags, ULONG mask, const struct sid *sid)
{
    // What an entry says that was inherited already is not said again: files of
    // administrators have no second entry from CREATOR OWNER.
    for (ULONG i = 0; i < l->count; i++) {
        const struct entry *e = &l->entries[i];
        if ((flags & e->flags & INHERITED_ACE) && e->type == type && !(e->flags & IO) && !(flags & ~e->flags) &&
            (e->mask & mask) == mask && is_same(sid, &e->sid))
            return;
    }
    if (l->count == MAX_ENTRIES) return;
    struct entry *e = &l->entries[l->count++];
    e->type = type;
    e->flags = flags;
    e->mask = mask;
    memcpy(&e->sid, sid, SID_SIZE(sid));
}

// take_acl reads an access control list. FALSE: it has entries of other kinds.
static BOOL take_acl(const ACL *acl, struct list *l, BOOL *inherited)
{
    l->count = 0;
    if (!acl) { // everybody may do everything
        add(l, ACCESS_ALLOWED_ACE_TYPE, 0, FULL, &everyone);
        return TRUE;
    }
    const char *at = (const char *)(acl + 1), *end = (const char *)acl + acl->AclSize;
    for (ULONG i = 0; i < acl->AceCount; i++) {
        const ACCESS_ALLOWED_ACE *ace = (const void *)at;
        if (end - at < 16 || ace->Header.AceSize < 16 || ace->Header.AceSize > end - at) return FALSE;
        at += ace->Header.AceSize;
        struct sid sid;
        if (ace->Header.AceType > ACCESS_DENIED_ACE_TYPE || !copy_sid(&ace->SidStart, &sid)) return FALSE;
        if (ace->Header.AceFlags & INHERITED_ACE) {
            *inherited = TRUE;
            continue;
        }
        if (l->count == MAX_ENTRIES) return FALSE;
        add(l, ace->Header.AceType, ace->Header.AceFlags, ace->Mask, &sid);
    }
    return TRUE;
}

static void default_owner(const struct linux_stat *st, struct security *s)
{
    static const struct sid local_service = NT_SID(1, 19), network_service = NT_SID(1, 20);
    const struct sid *owner = st->uid == 64001   ? &container_user
                              : st->uid == 64019 ? &local_service
                              : st->uid == 64020 ? &network_service
                                                 : &administrators;
    memcpy(&s->owner, owner, sizeof(*owner));
    memcpy(&s->group, owner == &administrators ? &system_sid : owner, sizeof(*owner));
}

static const struct list profile = {2, {
    {0, OI | CI, FULL, SYSTEM_SID},
    {0, OI | CI, FULL, ADMINISTRATORS_SID},
}};

// find_profile fills in what the profile of a user has: its user may do everything.
static BOOL find_profile(const char *path, struct security *s)
{
    static const char users_dir[] = "/users/";
    int n = text_length(path), m = (int)sizeof(users_dir) - 1, slash = n;
    while (slash > 0 && path[slash - 1] != '/') slash--;
    char above[PATH_SIZE];
    if (slash < m || slash == n || memcmp(path + slash - m, users_dir, (SIZE_T)m)) return FALSE;
    memcpy(above, path, (SIZE_T)(slash - m));
    above[slash - m] = 0;
    struct linux_stat st;
    if (!is_drive_root(above) || !stat_file(path, &st) || (st.mode & 077)) return FALSE; // Public is open
    s->list = profile;
    s->control = SE_DACL_PROTECTED | SE_DACL_AUTO_INHERITED;
    const struct sid *user = is_same(&s->owner, &administrators) ? &container_administrator : &s->owner;
    add(&s->list, ACCESS_ALLOWED_ACE_TYPE, OI | CI, FULL, user);
    memcpy(&s->owner, &system_sid, sizeof(s->owner));
    memcpy(&s->group, &system_sid, sizeof(s->group));
    return TRUE;
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

// find_known fills in what Windows itself says of one of its directories.
static BOOL find_known(const char *path, struct security *s)
{
    int n = text_length(path);
    if (is_drive_root(path)) {
        s->list = in_container() ? container_root : host_root;
        s->control = SE_DACL_PROTECTED | SE_DACL_AUTO_INHERITED;
        return TRUE;
    }
    for (ULONG i = 0; i < ARRAYSIZE(known); i++) {
        int m = text_length(known[i].path), same = 0;
        if (n <= m || path[n - m - 1] != '/') continue;
        while (same < m && lower(path[n - m + same]) == known[i].path[same]) same++;
        char above[PATH_SIZE];
        memcpy(above, path, (SIZE_T)n + 1);
        above[n - m - 1] = 0;
        if (same < m || !is_drive_root(above) || mount_of(path) != mount_of(above)) continue;
        s->list = *known[i].list;
        s->control = SE_DACL_PROTECTED | SE_DACL_AUTO_INHERITED;
        memcpy(&s->owner, known[i].owner, sizeof(s->owner));
        memcpy(&s->group, known[i].owner, sizeof(s->group));
        return TRUE;
    }
    return in_container() && find_profile(path, s);
}

// load reads what a file says itself. FALSE: its file system keeps nothing.
static BOOL load(const char *path, struct security *s)
{
    char buffer[PATH_SIZE];
    union {
        SECURITY_DESCRIPTOR_RELATIVE head;
        char bytes[MAX_DESCRIPTOR];
    } kept;
    struct linux_stat st;
    if (!stat_file(path, &st)) st.uid = 0;
    default_owner(&st, s);
    s->control = SE_DACL_AUTO_INHERITED;
    s->list.count = 0;
    long long n = linux_call(LINUX_getxattr, (long long)as_root(path, buffer), (long long)ATTRIBUTE, (long long)&kept,
                             sizeof(kept), 0);
    if (n == -LINUX_EOPNOTSUPP) return FALSE;
    BOOL inherited, ok = n >= (long long)sizeof(kept.head) && kept.head.Owner < n - 8 && kept.head.Group < n - 8 &&
                         kept.head.Dacl < n - 8 && kept.head.Owner && kept.head.Group && kept.head.Dacl;
    ok = ok && ((ACL *)(kept.bytes + kept.head.Dacl))->AclSize <= n - kept.head.Dacl &&
         kept.head.Owner + SID_SIZE((struct sid *)(kept.bytes + kept.head.Owner)) <= n &&
         kept.head.Group + SID_SIZE((struct sid *)(kept.bytes + kept.head.Group)) <= n &&
         copy_sid(kept.bytes + kept.head.Owner, &s->owner) && copy_sid(kept.bytes + kept.head.Group, &s->group) &&
         take_acl((ACL *)(kept.bytes + kept.head.Dacl), &s->list, &inherited);
    if (ok) s->control = kept.head.Control & (SE_DACL_PROTECTED | SE_DACL_AUTO_INHERITED);
    else find_known(path, s);
    return TRUE;
}

static BOOL inherits(const struct security *s)
{
    return (s->control & (SE_DACL_PROTECTED | SE_DACL_AUTO_INHERITED)) == SE_DACL_AUTO_INHERITED;
}

static ULONG map_generic(ULONG mask)
{
    ULONG m = mask & 0x0fffffff;
    if (mask & GENERIC_ALL) m |= FULL;
    if (mask & GENERIC_READ) m |= FILE_GENERIC_READ;
    if (mask & GENERIC_WRITE) m |= FILE_GENERIC_WRITE;
    if (mask & GENERIC_EXECUTE) m |= FILE_GENERIC_EXECUTE;
    return m;
}

// inherit adds what a directory passes on to a file or a directory in it:
// learn.microsoft.com, "ACE inheritance rules".
static void inherit(const struct list *from, BOOL dir, const struct sid *owner, struct list *to)
{
    for (ULONG i = 0; i < from->count; i++) {
        const struct entry *e = &from->entries[i];
        BYTE down = e->flags & (OI | CI);
        if (e->flags & NO_PROPAGATE_INHERIT_ACE) down = 0;
        BOOL here = e->flags & (dir ? CI : OI);
        BOOL creator = is_same(&e->sid, &creator_owner);
        ULONG mask = map_generic(e->mask);
        if (!dir) {
            if (here) add(to, e->type, INHERITED_ACE, mask, creator ? owner : &e->sid);
        } else if (here && !creator && mask == e->mask) {
            add(to, e->type, (BYTE)(INHERITED_ACE | down), mask, &e->sid);
        } else {
            // One that means another account or right below is there twice.
            if (here) add(to, e->type, INHERITED_ACE, mask, creator ? owner : &e->sid);
            if (down) add(to, e->type, (BYTE)(INHERITED_ACE | IO | down), e->mask, &e->sid);
        }
    }
}

// cut removes the last part of a path. FALSE: there is no directory above.
static BOOL cut(char *path)
{
    int n = text_length(path);
    if (n <= 1 || is_drive_root(path)) return FALSE;
    while (n > 1 && path[n - 1] != '/') n--;
    path[n > 1 ? n - 1 : 1] = 0;
    return TRUE;
}

#define MAX_DEPTH 256

// complete adds what a file inherits.
static void complete(const char *path, struct security *s)
{
    char at[PATH_SIZE];
    struct security *above = alloc_mem(2 * sizeof(*above)), *next = above + 1;
    int ends[MAX_DEPTH], depth = 0; // where the directories on the way down end
    if (!above) return;
    memcpy(at, path, (SIZE_T)text_length(path) + 1);
    above->list = host_root;
    for (unsigned long long mount = mount_of(path); depth < MAX_DEPTH; depth++) {
        // Above a volume lie directories of the host.
        if (!cut(at) || mount_of(at) != mount) break;
        load(at, above);
        if (!inherits(above)) break;
        ends[depth] = text_length(at);
        above->list = host_root;
    }
    while (depth > 0) {
        int end = ends[--depth];
        memcpy(at, path, (SIZE_T)end);
        at[end] = 0;
        load(at, next);
        inherit(&above->list, TRUE, &next->owner, &next->list);
        above->list = next->list;
    }
    struct linux_stat st;
    BOOL dir = stat_file(path, &st) && (st.mode & LINUX_S_IFMT) == LINUX_S_IFDIR;
    inherit(&above->list, dir, &s->owner, &s->list);
    free_mem(above);
}

static ULONG put_sid(char *base, ULONG at, ULONG size, const struct sid *s)
{
    if (at + SID_SIZE(s) <= size) memcpy(base + at, s, SID_SIZE(s));
    return at + SID_SIZE(s);
}

// put writes a self-relative security descriptor and returns the bytes it takes.
static ULONG put(const struct security *s, SECURITY_INFORMATION what, void *out, ULONG size)
{
    SECURITY_DESCRIPTOR_RELATIVE head = {.Revision = SECURITY_DESCRIPTOR_REVISION, .Control = SE_SELF_RELATIVE};
    ULONG at = sizeof(head);
    char *base = out;
    if (what & DACL_SECURITY_INFORMATION) {
        ACL acl = {.AclRevision = ACL_REVISION, .AceCount = (WORD)s->list.count};
        ULONG begin = at;
        head.Control |= SE_DACL_PRESENT | s->control;
        head.Dacl = at;
        at += sizeof(acl);
        for (ULONG i = 0; i < s->list.count; i++) {
            const struct entry *e = &s->list.entries[i];
            struct {
                ACE_HEADER header;
                ULONG mask;
            } ace = {{e->type, e->flags, (WORD)(8 + SID_SIZE(&e->sid))}, e->mask};
            if (at + sizeof(ace) <= size) memcpy(base + at, &ace, sizeof(ace));
            at = put_sid(base, at + sizeof(ace), size, &e->sid);
        }
        acl.AclSize = (WORD)(at - begin);
        if (begin + sizeof(acl) <= size) memcpy(base + begin, &acl, sizeof(acl));
    }
    if (what & OWNER_SECURITY_INFORMATION) {
        head.Owner = at;
        at = put_sid(base, at, size, &s->owner);
    }
    if (what & GROUP_SECURITY_INFORMATION) {
        head.Group = at;
        at = put_sid(base, at, size, &s->group);
    }
    if (sizeof(head) <= size) memcpy(base, &head, sizeof(head));
    return at;
}

#define ALL_PARTS (OWNER_SECURITY_INFORMATION | GROUP_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION)

static NTSTATUS NTAPI mend_NtQuerySecurityObject(HANDLE handle, SECURITY_INFORMATION what, SECURITY_DESCRIPTOR *out,
                                                 ULONG size, ULONG *need)
{
    char path[PATH_SIZE];
    struct security *s;
    if ((!handle_is_link(handle, path) && !handle_path(handle, path)) || !(s = alloc_mem(sizeof(*s))))
        return real_NtQuerySecurityObject(handle, what, out, size, need);
    if (!load(path, s)) {
        free_mem(s);
        return real_NtQuerySecurityObject(handle, what, out, size, need);
    }
    if (inherits(s)) complete(path, s);
    ULONG takes = put(s, what, out, out ? size : 0);
    free_mem(s);
    if (need) *need = takes;
    return takes <= size && out ? STATUS_SUCCESS : STATUS_BUFFER_TOO_SMALL;
}

// rights returns what a list gives to an account and its groups.
static ULONG rights(const struct list *l, const struct sid *const *sids, ULONG count)
{
    ULONG allowed = 0, denied = 0;
    for (ULONG i = 0; i < l->count; i++) {
        const struct entry *e = &l->entries[i];
        BOOL meant = FALSE;
        for (ULONG j = 0; j < count && !(e->flags & IO); j++) meant |= is_same(&e->sid, sids[j]);
        if (!meant) continue;
        if (e->type == ACCESS_DENIED_ACE_TYPE) denied |= map_generic(e->mask) & ~allowed;
        else allowed |= map_generic(e->mask) & ~denied;
    }
    return allowed;
}

// enforce sets the Unix permissions of others than a file's owner by what the
// descriptor gives them: to ContainerUser, or, of a file of ContainerUser, to
// administrators, who are one Unix user. The owner's stay: Wine could not open the
// file for changing its entries, which owners always may.
static void enforce(const char *path, const struct linux_stat *st, const struct security *s)
{
    static const struct sid *const administrator[] = {&administrators, &container_administrator, &users, &everyone,
                                                      &authenticated, &system_sid};
    static const struct sid *const user[] = {&container_user, &users, &everyone, &authenticated};
    struct security *whole = alloc_mem(sizeof(*whole));
    if (!whole) return;
    *whole = *s;
    if (inherits(whole)) complete(path, whole);
    ULONG given = st->uid == 64001 ? rights(&whole->list, administrator, ARRAYSIZE(administrator))
                                   : rights(&whole->list, user, ARRAYSIZE(user));
    free_mem(whole);
    unsigned others = (given & FILE_READ_DATA ? 4u : 0) | (given & FILE_WRITE_DATA ? 2u : 0);
    // Who executes a file or passes a directory is not decided here.
    linux_call(LINUX_chmod, (long long)path, (st->mode & 07711) | others << 3 | others, 0, 0, 0);
}

// keep stores a descriptor. A file that is read-only for its owner is opened for
// the purpose.
static long long keep(const char *path, const struct linux_stat *st, const struct security *s)
{
    char bytes[MAX_DESCRIPTOR], buffer[PATH_SIZE];
    path = as_root(path, buffer);
    ULONG n = put(s, ALL_PARTS, bytes, sizeof(bytes));
    if (n > sizeof(bytes)) return -LINUX_ENOSPC;
    long long r = linux_call(LINUX_setxattr, (long long)path, (long long)ATTRIBUTE, (long long)bytes, n, 0);
    if (r != -LINUX_EACCES) return r;
    if (linux_call(LINUX_chmod, (long long)path, (st->mode & 07777) | 0200, 0, 0, 0)) return r;
    r = linux_call(LINUX_setxattr, (long long)path, (long long)ATTRIBUTE, (long long)bytes, n, 0);
    linux_call(LINUX_chmod, (long long)path, st->mode & 07777, 0, 0, 0);
    return r;
}

// change makes a descriptor what a program asks for.
static NTSTATUS change(struct security *s, SECURITY_INFORMATION what, SECURITY_DESCRIPTOR *new)
{
    SECURITY_DESCRIPTOR_CONTROL control;
    ULONG revision;
    void *sid;
    ACL *acl;
    BOOLEAN present, defaulted;
    BOOL inherited = FALSE;
    NTSTATUS status = RtlGetControlSecurityDescriptor(new, &control, &revision);
    if (status) return status;
    if ((what & OWNER_SECURITY_INFORMATION) &&
        (RtlGetOwnerSecurityDescriptor(new, &sid, &defaulted) || !copy_sid(sid, &s->owner)))
        return STATUS_INVALID_OWNER;
    if ((what & GROUP_SECURITY_INFORMATION) &&
        (RtlGetGroupSecurityDescriptor(new, &sid, &defaulted) || !copy_sid(sid, &s->group)))
        return STATUS_INVALID_PRIMARY_GROUP;
    if (!(what & DACL_SECURITY_INFORMATION)) return STATUS_SUCCESS;
    if (RtlGetDaclSecurityDescriptor(new, &present, &acl, &defaulted) || !take_acl(present ? acl : NULL, &s->list, &inherited))
        return STATUS_INVALID_ACL;
    BOOL was_protected = s->control & SE_DACL_PROTECTED;
    if ((what & PROTECTED_DACL_SECURITY_INFORMATION) || (control & SE_DACL_PROTECTED))
        s->control = SE_DACL_PROTECTED | SE_DACL_AUTO_INHERITED;
    else if ((what & UNPROTECTED_DACL_SECURITY_INFORMATION) || (inherited && !was_protected))
        s->control = SE_DACL_AUTO_INHERITED; // Wine's SetNamedSecurityInfo adds inherited entries
    else if (!was_protected)
        s->control = 0; // SetFileSecurity: these entries and no others
    return STATUS_SUCCESS;
}

// may_change reports whether the process's account may give a file new entries.
static BOOL may_change(const char *path, const struct linux_stat *st, const struct security *s)
{
    if (!identity_limited() || st->uid == account_of((unsigned)linux_call(LINUX_getuid, 0, 0, 0, 0, 0)))
        return TRUE;
    struct security *whole = alloc_mem(sizeof(*whole));
    if (!whole) return FALSE;
    *whole = *s;
    if (inherits(whole)) complete(path, whole);
    ULONG allowed = 0, denied = 0;
    for (ULONG i = 0; i < whole->list.count; i++) {
        const struct entry *e = &whole->list.entries[i];
        if ((e->flags & IO) || !identity_is(&e->sid)) continue;
        if (e->type == ACCESS_DENIED_ACE_TYPE) denied |= map_generic(e->mask) & ~allowed;
        else allowed |= map_generic(e->mask) & ~denied;
    }
    free_mem(whole);
    return allowed & WRITE_DAC;
}

// set_security gives a file a descriptor. kept becomes FALSE if its file system keeps
// none.
static NTSTATUS set_security(const char *path, SECURITY_INFORMATION what, SECURITY_DESCRIPTOR *new, BOOL *kept)
{
    struct linux_stat st;
    struct security *s = alloc_mem(sizeof(*s));
    NTSTATUS status = STATUS_NO_MEMORY;
    if (s && stat_file(path, &st) && (*kept = load(path, s))) {
        status = may_change(path, &st, s) ? change(s, what, new) : STATUS_ACCESS_DENIED;
        if (!status) status = status_of(keep(path, &st, s));
        if (!status && in_container() && (what & DACL_SECURITY_INFORMATION)) enforce(path, &st, s);
    }
    free_mem(s);
    return status;
}

static NTSTATUS NTAPI mend_NtSetSecurityObject(HANDLE handle, SECURITY_INFORMATION what, SECURITY_DESCRIPTOR *new)
{
    char path[PATH_SIZE];
    BOOL kept = TRUE;
    if (!new || (!handle_is_link(handle, path) && !handle_path(handle, path)))
        return real_NtSetSecurityObject(handle, what, new);
    NTSTATUS status = set_security(path, what, new, &kept);
    // On the host Wine's own permissions count, too: they say what containers may do.
    if (!kept || (!status && !in_container())) {
        NTSTATUS wines = real_NtSetSecurityObject(handle, what, new);
        return kept ? STATUS_SUCCESS : wines;
    }
    return status;
}

static void record_security(const OBJECT_ATTRIBUTES *attr)
{
    char path[PATH_SIZE];
    SECURITY_DESCRIPTOR *new = attr->SecurityDescriptor;
    SECURITY_DESCRIPTOR_CONTROL control;
    ULONG revision;
    void *sid = NULL;
    BOOLEAN defaulted;
    BOOL kept;
    if (!unix_path(attr, path) || RtlGetControlSecurityDescriptor(new, &control, &revision)) return;
    // Entries at the making join the inherited ones, unless these are kept out.
    SECURITY_INFORMATION what = 0;
    if (control & SE_DACL_PRESENT)
        what = DACL_SECURITY_INFORMATION |
               (control & SE_DACL_PROTECTED ? 0 : UNPROTECTED_DACL_SECURITY_INFORMATION);
    if (!RtlGetOwnerSecurityDescriptor(new, &sid, &defaulted) && sid) what |= OWNER_SECURITY_INFORMATION;
    sid = NULL;
    if (!RtlGetGroupSecurityDescriptor(new, &sid, &defaulted) && sid) what |= GROUP_SECURITY_INFORMATION;
    if (what) set_security(path, what, new, &kept);
}

BOOL mend_security(void)
{
    file_created = record_security;
    real_NtQuerySecurityObject = hook_syscall("NtQuerySecurityObject", (void *)mend_NtQuerySecurityObject);
    real_NtSetSecurityObject = hook_syscall("NtSetSecurityObject", (void *)mend_NtSetSecurityObject);
    return real_NtQuerySecurityObject && real_NtSetSecurityObject;
}
