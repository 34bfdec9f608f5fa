// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Symbolic links. Wine 10 follows those of Linux and can do nothing else
// with them: CreateSymbolicLinkW reports success and makes nothing, a handle
// for a link is a handle for its target, so that removing or renaming the link
// hits the target.
//
// Here CreateSymbolicLinkW makes a real link. Opening one itself (the option
// FILE_OPEN_REPARSE_POINT, or an open that can only remove or rename) gives a
// handle for its directory and an entry in a table; what is done with a handle
// of the table is done to the link.
//
// Fidelity: subset - handles of the table lose their meaning when they are
// inherited or duplicated; the kind of a link (file or directory) is that of
// its target, also if it was made with the other flag (docs/fidelity/wine.md).

#include "winemend.h"

#define FILE_OPEN_REPARSE_POINT_ 0x00200000
#define FILE_DELETE_ON_CLOSE_ 0x00001000
#define FSCTL_GET_REPARSE_POINT_ 0x000900a8
#define FSCTL_SET_REPARSE_POINT_ 0x000900a4

struct open_link {
    struct open_link *next;
    HANDLE handle;
    BOOL remove; // when the handle is closed
    char path[1];
};

static struct open_link *open_links; // guarded by lock
static LONG open_count;              // changed under lock, read without
static srwlock lock;             // zero is unlocked

static NTSTATUS(NTAPI *real_NtOpenFile)(HANDLE *, ACCESS_MASK, OBJECT_ATTRIBUTES *, IO_STATUS_BLOCK *, ULONG, ULONG);
static NTSTATUS(NTAPI *real_NtCreateFile)(HANDLE *, ACCESS_MASK, OBJECT_ATTRIBUTES *, IO_STATUS_BLOCK *, LARGE_INTEGER *,
                                          ULONG, ULONG, ULONG, ULONG, void *, ULONG);
static NTSTATUS(NTAPI *real_NtClose)(HANDLE);
static NTSTATUS(NTAPI *real_NtQueryInformationFile)(HANDLE, IO_STATUS_BLOCK *, void *, ULONG, FILE_INFORMATION_CLASS);
static NTSTATUS(NTAPI *real_NtFsControlFile)(HANDLE, HANDLE, void *, void *, IO_STATUS_BLOCK *, ULONG, void *, ULONG,
                                             void *, ULONG);

static void forget_link(HANDLE handle)
{
    if (!open_count) return;
    struct open_link *found = NULL;
    RtlAcquireSRWLockExclusive(&lock);
    for (struct open_link **p = &open_links; *p; p = &(*p)->next) {
        if ((*p)->handle != handle) continue;
        found = *p;
        *p = found->next;
        open_count--;
        break;
    }
    RtlReleaseSRWLockExclusive(&lock);
    if (found && found->remove) linux_call(LINUX_unlink, (long long)found->path, 0, 0, 0, 0);
    free_mem(found);
}

static void remember_link(HANDLE handle, const char *path, BOOL remove)
{
    SIZE_T n = 0;
    while (path[n]) n++;
    struct open_link *l = alloc_mem(sizeof(*l) + n);
    if (!l) return;
    l->handle = handle;
    l->remove = remove;
    memcpy(l->path, path, n + 1);
    RtlAcquireSRWLockExclusive(&lock);
    l->next = open_links;
    open_links = l;
    open_count++;
    RtlReleaseSRWLockExclusive(&lock);
}

BOOL handle_is_link(HANDLE handle, char path[PATH_SIZE])
{
    if (!open_count) return FALSE;
    BOOL found = FALSE;
    RtlAcquireSRWLockShared(&lock);
    for (struct open_link *l = open_links; l; l = l->next) {
        if (l->handle != handle) continue;
        SIZE_T n = 0;
        while ((path[n] = l->path[n]) != 0) n++;
        found = TRUE;
        break;
    }
    RtlReleaseSRWLockShared(&lock);
    return found;
}

static void mark_removal(HANDLE handle, BOOL remove)
{
    RtlAcquireSRWLockExclusive(&lock);
    for (struct open_link *l = open_links; l; l = l->next)
        if (l->handle == handle) l->remove = remove;
    RtlReleaseSRWLockExclusive(&lock);
}

// means_link reports whether an open refers to the link itself. DeleteFile,
// RemoveDirectory and MoveFile of kernelbase ask for DELETE access only.
static BOOL means_link(ACCESS_MASK access, ULONG options)
{
    if (options & FILE_OPEN_REPARSE_POINT_) return TRUE;
    return (access & DELETE) && !(access & ~(ACCESS_MASK)(DELETE | SYNCHRONIZE | FILE_READ_ATTRIBUTES));
}

// open_parent opens the directory that the name's last part stands in.
static NTSTATUS open_parent(HANDLE *handle, OBJECT_ATTRIBUTES *attr, IO_STATUS_BLOCK *io)
{
    WCHAR *name = full_name(attr);
    if (!name) return STATUS_NO_MEMORY;
    int n = 0;
    while (name[n]) n++;
    while (n > 0 && name[n - 1] != '\\') n--;
    if (n > 7) n--; // the root of a drive keeps its backslash
    UNICODE_STRING us = {(USHORT)(n * (int)sizeof(WCHAR)), (USHORT)(n * (int)sizeof(WCHAR)), name};
    OBJECT_ATTRIBUTES parent;
    InitializeObjectAttributes(&parent, &us, attr->Attributes, NULL, NULL);
    NTSTATUS status = real_NtOpenFile(handle, FILE_READ_ATTRIBUTES | SYNCHRONIZE, &parent, io,
                                      FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                      FILE_DIRECTORY_FILE | FILE_SYNCHRONOUS_IO_NONALERT | FILE_OPEN_FOR_BACKUP_INTENT);
    free_mem(name);
    return status;
}

// Go's openat and os.Root ask with this attribute not to be led anywhere.
#define OBJ_DONT_REPARSE_ 0x1000
#define STATUS_REPARSE_POINT_ENCOUNTERED_ ((NTSTATUS)0xc000050b)

static BOOL is_symlink(const char *path)
{
    struct linux_stat st;
    return !linux_call(LINUX_lstat, (long long)path, (long long)&st, 0, 0, 0) &&
           (st.mode & LINUX_S_IFMT) == LINUX_S_IFLNK;
}

// leads_through: is any part of the name below its root directory a link? Of a
// name without a root directory only the last part is looked at.
static BOOL leads_through(const OBJECT_ATTRIBUTES *attr, ULONG options)
{
    char path[PATH_SIZE], root[PATH_SIZE];
    SIZE_T at = 0;
    if (!unix_path(attr, path)) return FALSE;
    if (attr->RootDirectory && handle_path(attr->RootDirectory, root)) {
        while (root[at] && root[at] == path[at]) at++;
        for (SIZE_T i = at + 1; at && path[at] && path[i]; i++) {
            if (path[i] != '/') continue;
            path[i] = 0;
            BOOL link = is_symlink(path);
            path[i] = '/';
            if (link) return TRUE;
        }
    }
    return !(options & FILE_OPEN_REPARSE_POINT_) && is_symlink(path);
}

// open_link opens a link itself. It returns FALSE if the name is not a link or
// the open does not refer to the link itself.
static BOOL open_link(HANDLE *handle, ACCESS_MASK access, OBJECT_ATTRIBUTES *attr, IO_STATUS_BLOCK *io, ULONG options,
                      NTSTATUS *status)
{
    char path[PATH_SIZE];
    struct link_info info;
    if (attr && (attr->Attributes & OBJ_DONT_REPARSE_) && leads_through(attr, options)) {
        *status = STATUS_REPARSE_POINT_ENCOUNTERED_;
        return TRUE;
    }
    if (!means_link(access, options) || !unix_path(attr, path) || !is_link(path, &info)) return FALSE;
    struct linux_stat target;
    BOOL dangling = linux_call(LINUX_stat, (long long)path, (long long)&target, 0, 0, 0) != 0;
    if ((options & FILE_DIRECTORY_FILE) && !info.directory && !dangling) {
        *status = STATUS_NOT_A_DIRECTORY;
        return TRUE;
    }
    if ((options & FILE_NON_DIRECTORY_FILE) && info.directory) {
        *status = STATUS_FILE_IS_A_DIRECTORY;
        return TRUE;
    }
    *status = open_parent(handle, attr, io);
    if (!*status) {
        forget_link(*handle); // a stale entry of a handle that was not closed by NtClose
        remember_link(*handle, path, (options & FILE_DELETE_ON_CLOSE_) != 0);
    }
    return TRUE;
}

void (*file_created)(const OBJECT_ATTRIBUTES *attr);

static NTSTATUS NTAPI mend_NtCreateFile(HANDLE *handle, ACCESS_MASK access, OBJECT_ATTRIBUTES *attr, IO_STATUS_BLOCK *io,
                                        LARGE_INTEGER *size, ULONG attributes, ULONG sharing, ULONG disposition,
                                        ULONG options, void *ea, ULONG ea_len)
{
    NTSTATUS status;
    struct by_drive on;
    if (name_by_drive(attr, &on)) {
        status = mend_NtCreateFile(handle, access, &on.attr, io, size, attributes, sharing, disposition, options, ea, ea_len);
        free_mem(on.buffer);
        return status;
    }
    if (is_hidden(attr)) return STATUS_OBJECT_PATH_NOT_FOUND;
    if ((disposition == FILE_OPEN || disposition == FILE_OPEN_IF) &&
        open_link(handle, access, attr, io, options, &status))
        return status;
    if (identity_closes(attr, disposition, options)) return STATUS_ACCESS_DENIED;
    status = real_NtCreateFile(handle, access, attr, io, size, attributes, sharing, disposition, options, ea, ea_len);
    if (!status && attr && attr->SecurityDescriptor && io->Information == FILE_CREATED && file_created)
        file_created(attr);
    return status;
}

static NTSTATUS NTAPI mend_NtOpenFile(HANDLE *handle, ACCESS_MASK access, OBJECT_ATTRIBUTES *attr, IO_STATUS_BLOCK *io,
                                      ULONG sharing, ULONG options)
{
    NTSTATUS status;
    struct by_drive on;
    if (name_by_drive(attr, &on)) {
        status = mend_NtOpenFile(handle, access, &on.attr, io, sharing, options);
        free_mem(on.buffer);
        return status;
    }
    if (is_hidden(attr)) return STATUS_OBJECT_PATH_NOT_FOUND;
    if (open_link(handle, access, attr, io, options, &status)) return status;
    return real_NtOpenFile(handle, access, attr, io, sharing, options);
}

static NTSTATUS NTAPI mend_NtClose(HANDLE handle)
{
    forget_link(handle);
    forget_directory(handle);
    return real_NtClose(handle);
}

static NTSTATUS finish(IO_STATUS_BLOCK *io, NTSTATUS status, ULONG information)
{
    io->Status = status;
    io->Information = information;
    return status;
}

// put_name writes FILE_NAME_INFORMATION: the path without the drive.
static NTSTATUS put_name(const char *path, void *out, ULONG len, ULONG *wrote)
{
    struct {
        ULONG length;
        WCHAR name[1];
    } *info = out;
    WCHAR name[1024];
    ULONG size = ARRAYSIZE(name);
    if (len < 8) return STATUS_INFO_LENGTH_MISMATCH;
    if (wine_unix_to_nt(path, name, &size)) return STATUS_OBJECT_NAME_INVALID;
    ULONG n = 6; // past \??\C:
    while (name[n]) n++;
    ULONG bytes = (n - 6) * (ULONG)sizeof(WCHAR), room = len - 4;
    info->length = bytes;
    memcpy(info->name, name + 6, bytes < room ? bytes : room);
    *wrote = 4 + (bytes < room ? bytes : room);
    return bytes <= room ? STATUS_SUCCESS : STATUS_BUFFER_OVERFLOW;
}

static void put_basic(const struct link_info *info, FILE_BASIC_INFORMATION *b)
{
    b->CreationTime.QuadPart = b->ChangeTime.QuadPart = nt_time(info->st.ctime, info->st.ctime_nsec);
    b->LastAccessTime.QuadPart = nt_time(info->st.atime, info->st.atime_nsec);
    b->LastWriteTime.QuadPart = nt_time(info->st.mtime, info->st.mtime_nsec);
    b->FileAttributes = link_attributes(info);
}

// FILE_STAT_INFORMATION, with which the kernelbase.dll of Wine 10 describes files by handle.
#define FileStatInformation ((FILE_INFORMATION_CLASS)68)
struct stat_information {
    LONGLONG id, created, accessed, written, changed, allocated, size;
    ULONG attributes, tag, links, access;
};

// FILE_ALL_INFORMATION up to the name.
struct all_information {
    FILE_BASIC_INFORMATION basic;
    FILE_STANDARD_INFORMATION standard;
    LONGLONG internal;
    ULONG ea, access;
    LONGLONG position;
    ULONG mode, alignment;
};

static NTSTATUS query_link(const char *path, void *out, ULONG len, ULONG class, ULONG *wrote)
{
    struct link_info info;
    if (!is_link(path, &info)) return STATUS_DELETE_PENDING;
    memset(out, 0, len);
    struct all_information *all = out;
    FILE_NETWORK_OPEN_INFORMATION *open = out;
    ULONG *words = out;
#define NEED(n)                                              \
    if (len < (n)) return STATUS_INFO_LENGTH_MISMATCH;       \
    *wrote = (n)
    switch (class) {
    case FileBasicInformation:
        NEED(sizeof(FILE_BASIC_INFORMATION));
        put_basic(&info, out);
        return STATUS_SUCCESS;
    case FileStandardInformation: {
        NEED(sizeof(FILE_STANDARD_INFORMATION));
        FILE_STANDARD_INFORMATION *std = out;
        std->NumberOfLinks = 1;
        std->Directory = (BOOLEAN)info.directory;
        return STATUS_SUCCESS;
    }
    case FileInternalInformation:
        NEED(8);
        *(LONGLONG *)out = (LONGLONG)info.st.ino;
        return STATUS_SUCCESS;
    case FileEaInformation:
        NEED(4);
        return STATUS_SUCCESS;
    case FileNameInformation: return put_name(path, out, len, wrote);
    case FileNetworkOpenInformation:
        NEED(sizeof(*open));
        open->CreationTime.QuadPart = open->ChangeTime.QuadPart = nt_time(info.st.ctime, info.st.ctime_nsec);
        open->LastAccessTime.QuadPart = nt_time(info.st.atime, info.st.atime_nsec);
        open->LastWriteTime.QuadPart = nt_time(info.st.mtime, info.st.mtime_nsec);
        open->FileAttributes = link_attributes(&info);
        return STATUS_SUCCESS;
    case FileAttributeTagInformation:
        NEED(8);
        words[0] = link_attributes(&info);
        words[1] = info.tag;
        return STATUS_SUCCESS;
    case FileAllInformation: {
        if (len < sizeof(*all) + 8) return STATUS_INFO_LENGTH_MISMATCH;
        put_basic(&info, &all->basic);
        all->standard.NumberOfLinks = 1;
        all->standard.Directory = (BOOLEAN)info.directory;
        all->internal = (LONGLONG)info.st.ino;
        NTSTATUS status = put_name(path, (char *)out + sizeof(*all), len - sizeof(*all), wrote);
        *wrote += sizeof(*all);
        return status;
    }
    case 59: // FileIdInformation: the volume's serial number and 128 bits
        NEED(24);
        ((LONGLONG *)out)[0] = (LONGLONG)info.st.dev;
        ((LONGLONG *)out)[1] = (LONGLONG)info.st.ino;
        return STATUS_SUCCESS;
    case FileStatInformation: {
        NEED(sizeof(struct stat_information));
        struct stat_information *stat = out;
        FILE_BASIC_INFORMATION basic;
        put_basic(&info, &basic);
        stat->id = (LONGLONG)info.st.ino;
        stat->created = basic.CreationTime.QuadPart;
        stat->accessed = basic.LastAccessTime.QuadPart;
        stat->written = basic.LastWriteTime.QuadPart;
        stat->changed = basic.ChangeTime.QuadPart;
        stat->attributes = basic.FileAttributes;
        stat->tag = info.tag;
        stat->links = 1;
        stat->access = FILE_ALL_ACCESS;
        return STATUS_SUCCESS;
    }
    default: return STATUS_INVALID_INFO_CLASS;
    }
#undef NEED
}

// SOCKET_FILE_SIZE is the size of the file that ws2_32.dll writes for a socket;
// checking the size first saves a query for the name of every other file.
#define SOCKET_FILE_SIZE 24

// show_socket completes what Wine says of the file of a socket.
static void show_socket(HANDLE handle, void *out, ULONG class)
{
    struct all_information *all = out;
    FILE_NETWORK_OPEN_INFORMATION *open = out;
    struct stat_information *stat = out;
    ULONG *attributes = out;
    if (class == FileAllInformation && all->standard.EndOfFile.QuadPart == SOCKET_FILE_SIZE)
        attributes = &all->basic.FileAttributes;
    else if (class == FileNetworkOpenInformation && open->EndOfFile.QuadPart == SOCKET_FILE_SIZE)
        attributes = &open->FileAttributes;
    else if (class == FileStatInformation && stat->size == SOCKET_FILE_SIZE)
        attributes = &stat->attributes;
    else if (class != FileAttributeTagInformation)
        return;
    char path[PATH_SIZE];
    struct link_info info;
    if (!handle_path(handle, path) || !is_reparse(path, &info) || !info.socket) return;
    *attributes |= FILE_ATTRIBUTE_REPARSE_POINT;
    // The tag follows the attributes.
    if (class == FileAttributeTagInformation || class == FileStatInformation) attributes[1] = TAG_SOCKET;
}

static NTSTATUS NTAPI mend_NtQueryInformationFile(HANDLE handle, IO_STATUS_BLOCK *io, void *out, ULONG len,
                                                  FILE_INFORMATION_CLASS class)
{
    char path[PATH_SIZE];
    if (class == FileCompressionInformation) return query_compression(mend_NtQueryInformationFile, handle, io, out, len);
    if (!handle_is_link(handle, path)) {
        NTSTATUS result = real_NtQueryInformationFile(handle, io, out, len, class);
        if (!result || result == STATUS_BUFFER_OVERFLOW) show_socket(handle, out, class);
        return result;
    }
    ULONG wrote = 0;
    NTSTATUS status = query_link(path, out, len, class, &wrote);
    if (status == STATUS_INFO_LENGTH_MISMATCH || status == STATUS_INVALID_INFO_CLASS) return status;
    return finish(io, status, wrote);
}

// FILE_RENAME_INFORMATION as it lies in memory.
struct rename_information {
    ULONG flags; // or a BOOLEAN with the same meaning in its lowest bit
    HANDLE root;
    ULONG length;
    WCHAR name[1];
};

static NTSTATUS rename_link(HANDLE handle, const char *path, const struct rename_information *info, ULONG len)
{
    if (len < 20 || info->length > len - 20) return STATUS_INFO_LENGTH_MISMATCH;
    UNICODE_STRING us = {(USHORT)info->length, (USHORT)info->length, (WCHAR *)info->name};
    OBJECT_ATTRIBUTES attr;
    InitializeObjectAttributes(&attr, &us, OBJ_CASE_INSENSITIVE, info->root, NULL);
    char to[PATH_SIZE];
    if (!unix_path(&attr, to)) return STATUS_OBJECT_NAME_INVALID;
    struct linux_stat st;
    if (!(info->flags & 1) && !linux_call(LINUX_lstat, (long long)to, (long long)&st, 0, 0, 0))
        return STATUS_OBJECT_NAME_COLLISION;
    long long result = linux_call(LINUX_rename, (long long)path, (long long)to, 0, 0, 0);
    if (!result) {
        forget_link(handle);
        remember_link(handle, to, FALSE);
    }
    return status_of(result);
}

static NTSTATUS set_link(HANDLE handle, const char *path, const void *in, ULONG len, ULONG class)
{
    switch (class) {
    case FileDispositionInformation:
        if (len < 1) return STATUS_INFO_LENGTH_MISMATCH;
        mark_removal(handle, *(const BOOLEAN *)in != 0);
        return STATUS_SUCCESS;
    case FileDispositionInformationEx_: {
        if (len < 4) return STATUS_INFO_LENGTH_MISMATCH;
        ULONG flags = *(const ULONG *)in;
        if ((flags & 3) != 3) { // not POSIX semantics: when the handle is closed
            mark_removal(handle, flags & 1);
            return STATUS_SUCCESS;
        }
        return status_of(linux_call(LINUX_unlink, (long long)path, 0, 0, 0, 0));
    }
    case FileRenameInformation:
    case FileRenameInformationEx_: return rename_link(handle, path, in, len);
    case FileBasicInformation: return STATUS_SUCCESS; // the times of a link are of no use to anyone
    default: return STATUS_INVALID_INFO_CLASS;
    }
}

static NTSTATUS(NTAPI *real_NtSetInformationFile)(HANDLE, IO_STATUS_BLOCK *, void *, ULONG, FILE_INFORMATION_CLASS);

static NTSTATUS NTAPI mend_NtSetInformationFile(HANDLE handle, IO_STATUS_BLOCK *io, void *in, ULONG len,
                                                FILE_INFORMATION_CLASS class)
{
    char path[PATH_SIZE];
    if (handle_is_link(handle, path)) return finish(io, set_link(handle, path, in, len, class), 0);
    return real_NtSetInformationFile(handle, io, in, len, class);
}

static NTSTATUS NTAPI mend_NtFsControlFile(HANDLE handle, HANDLE event, void *apc, void *context, IO_STATUS_BLOCK *io,
                                           ULONG code, void *in, ULONG in_len, void *out, ULONG out_len)
{
    char path[PATH_SIZE];
    if (code == FSCTL_GET_REPARSE_POINT_) {
        if (!handle_is_link(handle, path)) return STATUS_NOT_A_REPARSE_POINT;
        ULONG wrote = 0;
        NTSTATUS status = get_reparse(path, out, out_len, &wrote);
        return status ? status : finish(io, status, wrote);
    }
    if (code == FSCTL_SET_REPARSE_POINT_) {
        NTSTATUS status = set_reparse(handle, in, in_len);
        return status ? status : finish(io, status, 0);
    }
    return real_NtFsControlFile(handle, event, apc, context, io, code, in, in_len, out, out_len);
}

static HANDLE(WINAPI *real_CreateFileW)(const WCHAR *, DWORD, DWORD, SECURITY_ATTRIBUTES *, DWORD, DWORD, HANDLE);

// kernelbase!CreateFileW of Wine drops FILE_FLAG_OPEN_REPARSE_POINT.
static HANDLE WINAPI mend_CreateFileW(const WCHAR *file, DWORD access, DWORD sharing, SECURITY_ATTRIBUTES *sa,
                                      DWORD creation, DWORD flags, HANDLE template)
{
    UNICODE_STRING name;
    if (file && (flags & FILE_FLAG_OPEN_REPARSE_POINT) && (creation == OPEN_EXISTING || creation == OPEN_ALWAYS) &&
        RtlDosPathNameToNtPathName_U(file, &name, NULL, NULL)) {
        OBJECT_ATTRIBUTES attr;
        IO_STATUS_BLOCK io;
        HANDLE handle;
        NTSTATUS status;
        InitializeObjectAttributes(&attr, &name, OBJ_CASE_INSENSITIVE | (sa && sa->bInheritHandle ? OBJ_INHERIT : 0),
                                   NULL, NULL);
        ULONG options = FILE_OPEN_REPARSE_POINT_ | (flags & FILE_FLAG_DELETE_ON_CLOSE ? FILE_DELETE_ON_CLOSE_ : 0);
        BOOL done = open_link(&handle, access, &attr, &io, options, &status);
        RtlFreeUnicodeString(&name);
        if (done) {
            RtlSetLastWin32Error(RtlNtStatusToDosError(status));
            return status ? INVALID_HANDLE_VALUE : handle;
        }
    }
    return real_CreateFileW(file, access, sharing, sa, creation, flags, template);
}

BOOL mend_links(void)
{
    real_NtSetInformationFile = hook_syscall("NtSetInformationFile", (void *)mend_NtSetInformationFile);
    real_NtOpenFile = hook_syscall("NtOpenFile", (void *)mend_NtOpenFile);
    real_NtCreateFile = hook_syscall("NtCreateFile", (void *)mend_NtCreateFile);
    real_NtClose = hook_syscall("NtClose", (void *)mend_NtClose);
    real_NtQueryInformationFile = hook_syscall("NtQueryInformationFile", (void *)mend_NtQueryInformationFile);
    real_NtFsControlFile = hook_syscall("NtFsControlFile", (void *)mend_NtFsControlFile);
    return real_NtSetInformationFile && real_NtOpenFile && real_NtCreateFile && real_NtClose &&
           real_NtQueryInformationFile && real_NtFsControlFile;
}

// Wine's kernel32!CreateSymbolicLinkA reports success and makes nothing. kernel32.dll loads after this DLL.
static BOOLEAN WINAPI mend_CreateSymbolicLinkA(const char *link, const char *target, DWORD flags)
{
    UNICODE_STRING wide_link = {0}, wide_target = {0};
    if (!link || !target) return mend_CreateSymbolicLinkW(NULL, NULL, flags);
    BOOLEAN ok = RtlCreateUnicodeStringFromAsciiz(&wide_link, link) &&
                 RtlCreateUnicodeStringFromAsciiz(&wide_target, target);
    if (ok) ok = mend_CreateSymbolicLinkW(wide_link.Buffer, wide_target.Buffer, flags);
    else RtlSetLastWin32Error(ERROR_NOT_ENOUGH_MEMORY);
    RtlFreeUnicodeString(&wide_link);
    RtlFreeUnicodeString(&wide_target);
    return ok;
}

static void CALLBACK loaded(ULONG reason, const struct dll_notification *data, void *context)
{
    (void)context;
    static const UNICODE_STRING kernel32 = {24, 26, L"kernel32.dll"};
    if (reason == 1 && RtlEqualUnicodeString(data->base_name, &kernel32, TRUE))
        replace_function(kernel32.Buffer, "CreateSymbolicLinkA", (void *)mend_CreateSymbolicLinkA);
}

BOOL mend_link_creation(void)
{
    void *cookie;
    if (LdrRegisterDllNotification(0, loaded, NULL, &cookie)) return FALSE;
    real_CreateFileW = hook_function(L"kernelbase.dll", "CreateFileW", (void *)mend_CreateFileW);
    return replace_function(L"kernelbase.dll", "CreateSymbolicLinkW", (void *)mend_CreateSymbolicLinkW) &&
           real_CreateFileW;
}
