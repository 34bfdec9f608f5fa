// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// winemend.dll is loaded into every Windows process, before kernelbase.dll is
// initialised, and fixes what Wine does differently from Windows. It imports
// ntdll.dll only. Each file fixes one thing; main.c lists them.

#ifndef MULLION_WINEMEND_H
#define MULLION_WINEMEND_H

#define WIN32_NO_STATUS
#include <windows.h>
#undef WIN32_NO_STATUS
#include <ntstatus.h>
#include <winternl.h>

#include "../linux.h"

// PATH_SIZE is the longest Unix path that is handled, PATH_MAX of Linux; a
// longer one is left to Wine.
#define PATH_SIZE 4096

// hook.c

// hook makes the named function of ntdll.dll, a system call, begin with a jump
// to replacement. What it returns does what the function did. NULL: this Wine's
// system calls look different, nothing was changed.
void *hook_syscall(const char *name, void *replacement);
// hook_function does the same for any function that begins as compilers begin
// functions.
void *hook_function(const WCHAR *module, const char *name, void *replacement);
// replace_function makes a function begin with a jump. The old one is gone.
BOOL replace_function(const WCHAR *module, const char *name, void *replacement);
void *find_function(const WCHAR *module, const char *name);
BOOL overwrite_code(void *at, const void *code, SIZE_T size);
// not_replaced counts a function that could not be replaced, and returns NULL. failures returns how many there are.
void *not_replaced(void);
LONG failures(void);

// path.c

extern NTSTATUS(WINAPI *wine_nt_to_unix)(const OBJECT_ATTRIBUTES *, char *, ULONG *, UINT);
extern NTSTATUS(WINAPI *wine_unix_to_nt)(const char *, WCHAR *, ULONG *);
BOOL init_paths(void);
// unix_path finds the Unix path of what the attributes name, without following
// a link in the last place. The last part may be missing.
BOOL unix_path(const OBJECT_ATTRIBUTES *attr, char path[PATH_SIZE]);
// full_name puts together the NT name that the attributes name. The caller
// frees it with free_mem.
WCHAR *full_name(const OBJECT_ATTRIBUTES *attr);
// struct by_drive is a name of a file on drive C, in the place of one on the drive's volume. The caller frees buffer.
struct by_drive {
    OBJECT_ATTRIBUTES attr;
    UNICODE_STRING name;
    WCHAR *buffer;
};
// name_by_drive reports whether the attributes name a file by its volume, as \Device\HarddiskVolume1\file, and fills out.
BOOL name_by_drive(const OBJECT_ATTRIBUTES *attr, struct by_drive *out);
// is_drive_root reports whether a Unix path is that of C:\.
BOOL is_drive_root(const char *path);
// hide_linux makes the names below \??\unix, which Windows does not have, those of
// files that do not exist. Only Wine's own modules are left.
void hide_linux(void);
// is_hidden reports whether the attributes name such a file.
BOOL is_hidden(const OBJECT_ATTRIBUTES *attr);
// handle_path is the Unix path of an open file.
BOOL handle_path(HANDLE handle, char path[PATH_SIZE]);
int to_utf8(const WCHAR *from, int len, char *to, int size);
int to_utf16(const char *from, WCHAR *to, int size); // in characters, with the zero
NTSTATUS status_of(long long result);                // of a negated errno

// target.c

// encode_target turns a link's Windows target into what the Linux link holds,
// decode_target does the reverse. link is the link's own Unix path.
BOOL encode_target(const char *link, const WCHAR *target, char out[PATH_SIZE]);
BOOL decode_target(const char *link, const char *text, WCHAR *out, int size, BOOL *relative);
BOOL mark_junction(char text[PATH_SIZE]);
// is_junction reports whether the text that a link holds is that of a junction.
BOOL is_junction(const char *text);

// link_info.c

struct link_info {
    struct linux_stat st;
    BOOL directory; // the target is one
    BOOL socket;    // not a link, but the file of an AF_UNIX socket
    ULONG tag;      // of the reparse point
};
// is_link: whether path is a symbolic link, and its properties.
BOOL is_link(const char *path, struct link_info *info);
// is_reparse: whether it is a symbolic link or a socket.
BOOL is_reparse(const char *path, struct link_info *info);
// handle_is_link reports whether a handle means a link itself, and its path.
BOOL handle_is_link(HANDLE handle, char path[PATH_SIZE]);
#define TAG_SYMLINK 0xa000000cUL
#define TAG_MOUNT_POINT 0xa0000003UL // a junction
#define TAG_SOCKET 0x80000023UL // IO_REPARSE_TAG_AF_UNIX
ULONG link_attributes(const struct link_info *info);
LONGLONG nt_time(long long seconds, long long nanoseconds);

// link.c

BOOL mend_links(void);
BOOL mend_link_creation(void);
// file_created is called with what a program gave, security included, for a file
// that it has just made.
extern void (*file_created)(const OBJECT_ATTRIBUTES *attr);

// reparse.c

NTSTATUS make_link(const char *path, const WCHAR *target, BOOL junction);
// read_link finds the target of the link at a Unix path.
NTSTATUS read_link(const char *path, WCHAR *target, int size, BOOL *relative);
NTSTATUS get_reparse(const char *path, void *out, ULONG len, ULONG *wrote);
NTSTATUS set_reparse(HANDLE handle, const void *in, ULONG len);
BOOLEAN WINAPI mend_CreateSymbolicLinkW(const WCHAR *link, const WCHAR *target, DWORD flags);

// system.c, memory.c, parent.c

typedef NTSTATUS(NTAPI *query_system)(SYSTEM_INFORMATION_CLASS, void *, ULONG, ULONG *);
BOOL mend_system(void);
// limit_memory makes a SYSTEM_BASIC_INFORMATION tell no more memory than there is to
// commit.
void limit_memory(query_system query, void *basic);
// give_parents completes a list of SYSTEM_PROCESS_INFORMATION.
void give_parents(void *processes);

// directory.c, attributes.c, message.c, process.c, services.c, stack.c, break.c
BOOL mend_directories(void);
void forget_directory(HANDLE handle);
BOOL mend_attributes(void);
BOOL mend_messages(void);
BOOL mend_process(void);
BOOL mend_services(void);
BOOL mend_stacks(void);
BOOL mend_break(void);

#define TEB_DEALLOCATION_STACK 0x1478
HANDLE thread_id(void);
// process_ends reports whether this process has ended its other threads, and detaches its DLLs.
BOOL process_ends(void);
// end_process ends this process, and keeps its exit code.
void end_process(ULONG code);

// program.c

BOOL mend_programs(void);

// commit.c

// commit_allowed reports whether size bytes more are within the limit of the container's memory.
BOOL commit_allowed(SIZE_T size);
// commit_thread is called by each thread when it begins, and when it ends.
void commit_thread(BOOL begins);
BOOL mend_commits(void);

// crash.c

BOOL mend_crashes(void);
// keep_stack makes this thread keep some of its stack for the handling of an overflow.
void keep_stack(void);

// security.c

BOOL mend_security(void);

// identity.c

// A security identifier; the longest that is kept.
struct sid {
    BYTE revision, count;
    BYTE authority[6];
    ULONG sub[8];
};
#define NT_SID(n, ...) {1, n, {0, 0, 0, 0, 0, 5}, {__VA_ARGS__}}
#define SID_SIZE(s) (8 + 4 * (ULONG)(s)->count)
// S-1-5-80 and a digest of the service's name.
#define TRUSTED_INSTALLER NT_SID(6, 80, 956008885, 3418522649, 1831038044, 1853292631, 2271478464)

// identity_is reports whether a security identifier is that of the process's account
// or of a group that it belongs to.
BOOL identity_is(const struct sid *sid);
// identity_known reports whether the process runs as an account of a container.
BOOL identity_known(void);
// identity_limited reports whether the process's account is not an administrator.
BOOL identity_limited(void);
// identity_closes: the account may not make this file, though Unix permissions
// would let it.
BOOL identity_closes(const OBJECT_ATTRIBUTES *attr, ULONG disposition, ULONG options);
BOOL mend_identity(void);

// compression.c

typedef NTSTATUS(NTAPI *query_file)(HANDLE, IO_STATUS_BLOCK *, void *, ULONG, FILE_INFORMATION_CLASS);
NTSTATUS query_compression(query_file query, HANDLE handle, IO_STATUS_BLOCK *io, void *out, ULONG len);

// chain.c

void mend_chains(void);

// streams.c

void mend_streams(void);

// environment.c

NTSYSAPI NTSTATUS NTAPI RtlSetEnvironmentVariable(WCHAR **, UNICODE_STRING *, UNICODE_STRING *);
void set_environment(void);

// image.c

// is_image reports whether the process's program is the named file: a backslash
// and a name in lower case.
BOOL is_image(const WCHAR *name);

// command.c

// is_command_prompt reports whether the program is cmd.exe.
BOOL is_command_prompt(void);
// command_message returns cmd.exe's own text for a system error, or NULL.
const WCHAR *command_message(ULONG error, WCHAR *buffer, SIZE_T size);
BOOL mend_command(void);
// check_command replaces the same functions as in cmd.exe, which a process has loaded that is about to end.
void check_command(HMODULE prompt);

// level.c

// What Wine's commands return to end the blocks and loops that they are in.
#define COMMAND_ABORTED (-999999)
// level_failed says that the running command has failed, and which exit code cmd.exe has if it is the only command.
void level_failed(ULONG code);
// level_follows says what ERRORLEVEL is when the running command has ended.
void level_follows(ULONG code);
// level_exits says that the running command is exit.
void level_exits(void);
// level_ends is called when a command begins, and when it has ended.
void level_ends(void);
// level_prompts is called before a line is read.
void level_prompts(void);
// level_exit_code returns what Windows' cmd.exe ends with where Wine's ends with code.
ULONG level_exit_code(ULONG code);
void mend_level(HMODULE program);

// builtins.c

// Texts that command.c puts in the place of Wine's, and builtins.c looks for.
#define COMMAND_UNKNOWN L"'%1' is not recognized as an internal or external command,\noperable program or batch file.\n"
#define COMMAND_UNEXPECTED L"%1 was unexpected at this time.\n"
// command_asks is called before cmd.exe asks a question.
void command_asks(void);
// mend_builtins changes what the commands of cmd.exe print; program is cmd.exe.
void mend_builtins(HMODULE program);
// print_error prints the text of the last error, and print_line a line.
void print_error(void);
void print_line(const WCHAR *text);
// builtin_message returns the text that the running command has for a system error,
// or NULL.
const char *builtin_message(ULONG error);

// links.c

// mend_link_commands changes mklink; program is cmd.exe. The functions print a line, and the text of the last error.
void mend_link_commands(HMODULE program, void (*line)(const WCHAR *), void (*error)(void));
// links_command is called when a command begins.
void links_command(void);
// links_message returns the text that mklink has for a system error, or NULL.
const char *links_message(ULONG error);
// links_directory is called with the directory whose files dir prints next.
void links_directory(const WCHAR *path);
// links_line is called with each text that dir prints, its format and first argument. It reports whether to print the
// whole line instead, or nothing yet if that is NULL.
BOOL links_line(const WCHAR *format, const WCHAR *text, const WCHAR *argument, const WCHAR **whole);

// imports.c

// A function that cmd.exe calls, and what it is to call instead (NULL: no other). real
// is where to keep the function.
struct import {
    const char *name;
    void *replacement, *real;
};
BOOL same_text(const WCHAR *a, const WCHAR *b);
void replace_imports(HMODULE program, const struct import *functions, SIZE_T count);

// lines.c

void mend_lines(HMODULE program);
// lines_prompt is called when cmd.exe prompts for a line.
void lines_prompt(void);
// lines_typed is called with a line that was typed at the prompt. One without anything is followed by an empty line, for
// which Wine has none.
void lines_typed(const WCHAR *text, DWORD n);

// parens.c

// parens_command is called where a command may begin in a line that is parsed.
void parens_command(WCHAR *text);
// parens_forget is called when the line has been parsed.
void parens_forget(void);

// batch.c

// batch_runs tells that batch files run, or none.
void batch_runs(BOOL yes);
BOOL batch_running(void);
// batch_program_ended is called with the exit code of each program.
void batch_program_ended(DWORD code);
// batch_interrupted takes a control event. It reports whether that is for a batch file, or for what was typed.
BOOL batch_interrupted(void);
// batch_pending reports whether an event has come that batch_ending has not asked about.
BOOL batch_pending(void);
// batch_skips reports whether what is left is skipped, as batch_ending has said last.
BOOL batch_skips(void);
// batch_stops reports whether an event has come, and the command that runs is to end.
BOOL batch_stops(void);
// batch_read_interrupted tells that Ctrl+C has ended a read.
void batch_read_interrupted(void);
// batch_read_begins is called before cmd.exe reads a key, or a line, from the console. It reports whether to read: not if
// an event has come. After the read batch_read_ends is called.
BOOL batch_read_begins(BOOL line);
void batch_read_ends(void);
// batch_key tells that Ctrl+C was read as a key.
void batch_key(void);
// batch_ending reports whether what is left of batch files, or of a typed line, is to be
// skipped. If an event has come, it asks about batch files.
BOOL batch_ending(void);
// batch_prompts records whether this cmd.exe prompts. A yes ends one that does not.
void batch_prompts(BOOL yes);
// batch_over is called when cmd.exe prompts.
void batch_over(void);

// interrupt.c

void mend_interrupts(HMODULE program);
// interrupt_skips reports whether a command that is skipped is to be taken for the one with this name.
BOOL interrupt_skips(const WCHAR *name);

// completion.c

typedef BOOL(WINAPI *read_console)(HANDLE, void *, DWORD, DWORD *, void *);
// read_completing reads a line for cmd.exe by ReadConsoleW, and completes names in it.
BOOL read_completing(read_console read, HANDLE input, WCHAR *buffer, DWORD size, DWORD *count);

// console.c

// console_ignores reports whether a control event leaves this process alone.
BOOL console_ignores(ULONG_PTR event);
BOOL mend_console(void);

void *alloc_mem(SIZE_T size); // zeroed
void free_mem(void *p);

// Declarations that mingw-w64 10 lacks.
#define FileDispositionInformationEx_ ((FILE_INFORMATION_CLASS)64)
#define ProcessDefaultHardErrorMode_ ((PROCESSINFOCLASS)12)
#define FileRenameInformationEx_ ((FILE_INFORMATION_CLASS)65)
#ifndef NtCurrentProcess
#define NtCurrentProcess() ((HANDLE)(LONG_PTR)-1)
#endif
typedef struct {
    void *ptr;
} srwlock; // RTL_SRWLOCK
NTSYSAPI NTSTATUS NTAPI NtDelayExecution(BOOLEAN, const LARGE_INTEGER *);
NTSYSAPI void NTAPI RtlAcquireSRWLockExclusive(srwlock *);
NTSYSAPI void NTAPI RtlReleaseSRWLockExclusive(srwlock *);
NTSYSAPI void NTAPI RtlAcquireSRWLockShared(srwlock *);
NTSYSAPI void NTAPI RtlReleaseSRWLockShared(srwlock *);
NTSYSAPI WCHAR NTAPI RtlUpcaseUnicodeChar(WCHAR);
NTSYSAPI void NTAPI RtlSetLastWin32Error(DWORD);
NTSYSAPI DWORD NTAPI RtlGetLastWin32Error(void);
NTSYSAPI BOOLEAN NTAPI RtlEqualUnicodeString(const UNICODE_STRING *, const UNICODE_STRING *, BOOLEAN);
NTSYSAPI void NTAPI RtlExitUserThread(ULONG);
NTSYSAPI NTSTATUS NTAPI NtAllocateVirtualMemory(HANDLE, void **, ULONG_PTR, SIZE_T *, ULONG, ULONG);
NTSYSAPI NTSTATUS NTAPI NtProtectVirtualMemory(HANDLE, void **, SIZE_T *, ULONG, ULONG *);
NTSYSAPI NTSTATUS NTAPI LdrLoadDll(const WCHAR *, ULONG, const UNICODE_STRING *, HMODULE *);
NTSYSAPI NTSTATUS NTAPI LdrGetDllHandle(const WCHAR *, ULONG, const UNICODE_STRING *, HMODULE *);
NTSYSAPI NTSTATUS NTAPI LdrGetProcedureAddress(HMODULE, const ANSI_STRING *, ULONG, void **);

// LDR_DLL_NOTIFICATION_DATA, winternl documentation of LdrDllNotification.
struct dll_notification {
    ULONG flags;
    const UNICODE_STRING *full_name, *base_name;
    void *base;
    ULONG size;
};
NTSYSAPI NTSTATUS NTAPI LdrRegisterDllNotification(ULONG, void(CALLBACK *)(ULONG, const struct dll_notification *, void *),
                                                   void *, void **);

#endif
