// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Listing directories. Wine reports the attributes of a link's target, and omits
// dangling links, so that they cannot be removed. Here links are reported as
// links, and those that Wine omits are added at the end. Directories of C:\ whose
// names Wine spells in its own way have Windows' spelling.

#include "winemend.h"

static NTSTATUS(NTAPI *real_NtQueryDirectoryFile)(HANDLE, HANDLE, void *, void *, IO_STATUS_BLOCK *, void *, ULONG,
                                                  FILE_INFORMATION_CLASS, BOOLEAN, UNICODE_STRING *, BOOLEAN);

// A directory that is being listed: the links in it.
struct listing {
    struct listing *next;
    HANDLE handle;
    BOOL root;   // of drive C:
    char *names; // one after the other, each with a zero, an empty one last
    char *seen;  // one for each name
    WCHAR mask[256];
};

static struct listing *listings; // guarded by lock; a program lists few at a time
static LONG listing_count;
static srwlock lock;

static struct listing *take(HANDLE handle)
{
    if (!listing_count) return NULL;
    struct listing *found = NULL;
    RtlAcquireSRWLockExclusive(&lock);
    for (struct listing **p = &listings; *p; p = &(*p)->next) {
        if ((*p)->handle != handle) continue;
        found = *p;
        *p = found->next;
        listing_count--;
        break;
    }
    RtlReleaseSRWLockExclusive(&lock);
    return found;
}

static void put(struct listing *l)
{
    RtlAcquireSRWLockExclusive(&lock);
    l->next = listings;
    listings = l;
    listing_count++;
    RtlReleaseSRWLockExclusive(&lock);
}

static void drop(struct listing *l)
{
    if (!l) return;
    free_mem(l->names);
    free_mem(l->seen);
    free_mem(l);
}

void forget_directory(HANDLE handle) { drop(take(handle)); }

// struct linux_dirent64 up to the name, and the type of a link.
#define DIRENT_NAME 19
#define DT_LNK 10

// collect reads the names of all links in a directory.
static void collect(struct listing *l, const char *path)
{
    long long fd = linux_call(LINUX_open, (long long)path, LINUX_O_DIRECTORY | LINUX_O_CLOEXEC, 0, 0, 0);
    if (fd < 0) return;
    char *buffer = alloc_mem(32768), *names = NULL;
    SIZE_T used = 0, room = 0, count = 0;
    for (;;) {
        long long got = buffer ? linux_call(LINUX_getdents64, fd, (long long)buffer, 32768, 0, 0) : 0;
        if (got <= 0) break;
        for (long long at = 0; at < got;) {
            const char *entry = buffer + at;
            unsigned short size;
            memcpy(&size, entry + 16, sizeof(size));
            at += size;
            if (entry[18] != DT_LNK) continue;
            SIZE_T n = 0;
            while (entry[DIRENT_NAME + n]) n++;
            if (used + n + 2 > room) {
                SIZE_T more = room ? 2 * room + n : 4096;
                char *grown = alloc_mem(more);
                if (!grown) continue;
                if (names) memcpy(grown, names, used);
                free_mem(names);
                names = grown;
                room = more;
            }
            memcpy(names + used, entry + DIRENT_NAME, n + 1);
            used += n + 1;
            count++;
        }
    }
    linux_call(LINUX_close, fd, 0, 0, 0, 0);
    free_mem(buffer);
    l->names = names;
    l->seen = alloc_mem(count + 1);
}

static struct listing *begin(HANDLE handle, const UNICODE_STRING *mask)
{
    struct listing *l = alloc_mem(sizeof(*l));
    char path[PATH_SIZE];
    if (!l) return NULL;
    l->handle = handle;
    if (mask && mask->Length && mask->Length < sizeof(l->mask)) memcpy(l->mask, mask->Buffer, mask->Length);
    if (handle_path(handle, path)) {
        l->root = is_drive_root(path);
        collect(l, path);
    }
    return l;
}

// Offsets in an entry of each class: FILE_DIRECTORY_INFORMATION and its
// relatives begin alike (ntifs.h).
#define NEXT 0
#define CREATION 8
#define ACCESS 16
#define WRITE 24
#define CHANGE 32
#define ATTRIBUTES 56
#define NAME_LENGTH 60
#define EA_SIZE 64 // holds the tag of a reparse point

static int name_offset(ULONG class)
{
    switch (class) {
    case 1: return 64;   // FileDirectoryInformation
    case 2: return 68;   // FileFullDirectoryInformation
    case 3: return 94;   // FileBothDirectoryInformation
    case 37: return 104; // FileIdBothDirectoryInformation
    case 38: return 80;  // FileIdFullDirectoryInformation
    default: return 0;
    }
}

static ULONG get(const char *entry, int offset)
{
    ULONG v;
    memcpy(&v, entry + offset, sizeof(v));
    return v;
}

static void set(char *entry, int offset, ULONG v) { memcpy(entry + offset, &v, sizeof(v)); }

static void mark_link(char *entry, ULONG class, ULONG tag)
{
    set(entry, ATTRIBUTES, get(entry, ATTRIBUTES) | FILE_ATTRIBUTE_REPARSE_POINT);
    memset(entry + 40, 0, 16); // EndOfFile and AllocationSize are the target's
    if (class != 1) set(entry, EA_SIZE, tag);
}

// spell corrects the names of two directories of C:\, which are as long in either
// spelling.
static void spell(char *buffer, int name_at)
{
    static const WCHAR names[][8] = {L"Windows", L"Users"};
    for (char *entry = buffer;; entry += get(entry, NEXT)) {
        UNICODE_STRING name = {(USHORT)get(entry, NAME_LENGTH), (USHORT)get(entry, NAME_LENGTH), (WCHAR *)(entry + name_at)};
        for (ULONG i = 0; i < ARRAYSIZE(names); i++) {
            UNICODE_STRING known;
            RtlInitUnicodeString(&known, names[i]);
            if (RtlEqualUnicodeString(&name, &known, TRUE)) memcpy(name.Buffer, names[i], name.Length);
        }
        if (!get(entry, NEXT)) break;
    }
}

// tag_of returns the tag of a link in the directory.
static ULONG tag_of(const struct listing *l, const char *name)
{
    char path[PATH_SIZE];
    struct link_info info;
    SIZE_T n = 0, m = 0;
    if (!handle_path(l->handle, path)) return TAG_SYMLINK;
    while (path[n]) n++;
    while (name[m]) m++;
    if (n + m + 2 > sizeof(path)) return TAG_SYMLINK;
    path[n] = '/';
    memcpy(path + n + 1, name, m + 1);
    return is_link(path, &info) ? info.tag : TAG_SYMLINK;
}

static void mark(struct listing *l, char *buffer, ULONG class, int name_at)
{
    if (!l->names) return;
    for (char *entry = buffer;; entry += get(entry, NEXT)) {
        char name[1024];
        if (to_utf8((WCHAR *)(entry + name_at), (int)(get(entry, NAME_LENGTH) / sizeof(WCHAR)), name, sizeof(name)) > 0) {
            SIZE_T i = 0;
            for (const char *n = l->names; *n; i++) {
                SIZE_T len = 0;
                while (n[len]) len++;
                if (!memcmp(n, name, len + 1)) {
                    l->seen[i] = 1;
                    mark_link(entry, class, tag_of(l, name));
                    break;
                }
                n += len + 1;
            }
        }
        if (!get(entry, NEXT)) break;
    }
}

static WCHAR upper(WCHAR c) { return RtlUpcaseUnicodeChar(c); }

// matches: '*' and '?', and the forms that FindFirstFile turns them into.
static BOOL matches(const WCHAR *mask, const WCHAR *name)
{
    for (; *mask; mask++, name++) {
        if (*mask == '*' || *mask == '<') {
            while (*mask == '*' || *mask == '<') mask++;
            if (!*mask) return TRUE;
            for (; *name; name++)
                if (matches(mask, name)) return TRUE;
            return *mask == '"' && !mask[1];
        }
        if (*mask == '"') {
            if (!*name) return !mask[1];
            if (*name != '.') return FALSE;
        } else if (*mask == '?' || *mask == '>') {
            if (!*name) return *mask == '>';
        } else if (upper(*mask) != upper(*name)) {
            return FALSE;
        }
    }
    return !*name;
}

// append writes the links that Wine left out. FALSE: there is none (left).
static BOOL append(struct listing *l, char *buffer, ULONG len, ULONG class, int name_at, BOOLEAN single, ULONG *wrote)
{
    char dir[PATH_SIZE];
    if (!l->names || !handle_path(l->handle, dir)) return FALSE;
    SIZE_T dir_len = 0, i = 0;
    while (dir[dir_len]) dir_len++;
    char *entry = NULL;
    ULONG at = 0;
    for (const char *n = l->names; *n; i++) {
        const char *name = n;
        SIZE_T name_len = 0;
        while (name[name_len]) name_len++;
        n += name_len + 1;
        WCHAR wide[256];
        struct link_info info;
        int chars = l->seen[i] ? -1 : to_utf16(name, wide, ARRAYSIZE(wide));
        if (chars < 0 || (l->mask[0] && !matches(l->mask, wide))) continue;
        if (dir_len + name_len + 2 > sizeof(dir)) continue;
        dir[dir_len] = '/';
        memcpy(dir + dir_len + 1, name, name_len + 1);
        if (!is_link(dir, &info)) continue;
        ULONG bytes = (ULONG)(chars - 1) * sizeof(WCHAR), start = (at + 7) & ~7UL;
        if (start + (ULONG)name_at + bytes > len) break;
        if (entry) set(entry, NEXT, start - (ULONG)(entry - buffer));
        entry = buffer + start;
        memset(entry, 0, (SIZE_T)name_at);
        LONGLONG t = nt_time(info.st.mtime, info.st.mtime_nsec);
        memcpy(entry + CREATION, &t, 8);
        memcpy(entry + ACCESS, &t, 8);
        memcpy(entry + WRITE, &t, 8);
        memcpy(entry + CHANGE, &t, 8);
        set(entry, ATTRIBUTES, link_attributes(&info));
        mark_link(entry, class, info.tag);
        set(entry, NAME_LENGTH, bytes);
        memcpy(entry + name_at, wide, bytes);
        at = start + (ULONG)name_at + bytes;
        l->seen[i] = 1;
        if (single) break;
    }
    *wrote = at;
    return entry != NULL;
}

static NTSTATUS NTAPI mend_NtQueryDirectoryFile(HANDLE handle, HANDLE event, void *apc, void *context, IO_STATUS_BLOCK *io,
                                                void *buffer, ULONG len, FILE_INFORMATION_CLASS class, BOOLEAN single,
                                                UNICODE_STRING *mask, BOOLEAN restart)
{
    int name_at = name_offset(class);
    struct listing *l = name_at ? take(handle) : NULL;
    if (name_at && (!l || restart)) {
        drop(l);
        l = begin(handle, mask);
    }
    NTSTATUS status =
        real_NtQueryDirectoryFile(handle, event, apc, context, io, buffer, len, class, single, mask, restart);
    if (!l) return status;
    ULONG wrote;
    if (!status) {
        mark(l, buffer, class, name_at);
        if (l->root) spell(buffer, name_at);
    } else if ((status == STATUS_NO_MORE_FILES || status == STATUS_NO_SUCH_FILE) &&
               append(l, buffer, len, class, name_at, single, &wrote)) {
        io->Status = status = STATUS_SUCCESS;
        io->Information = wrote;
    }
    put(l);
    return status;
}

BOOL mend_directories(void)
{
    real_NtQueryDirectoryFile = hook_syscall("NtQueryDirectoryFile", (void *)mend_NtQueryDirectoryFile);
    return real_NtQueryDirectoryFile != NULL;
}
