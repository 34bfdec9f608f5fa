// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The standard streams of a container's programs. On Windows they are named pipes whose other ends a service of the
// container holds (CExecSvc.exe). mullion-init gives the first program Unix pipes. Wine lets programs read and write
// these, but refuses what else is done with a pipe: SetNamedPipeHandleState, reads of no byte that wait for data,
// CancelIoEx. Node, for one, ends with EBADF (libuv, uv_pipe_open in src/win/pipe.c).
//
// So the service manager, which is in each container and on each host, has threads that copy between the Unix pipes
// and named pipes. A program sends it its Unix pipes before it begins, and gets the named pipes for them.
//
// mullion-init must not end before all output has been copied. It gives the program one more descriptor: STARTED is
// written there when there is output to copy, DONE when the program has ended and its output has been copied.

#include "winemend.h"

NTSTATUS NTAPI NtCreateNamedPipeFile(HANDLE *, ULONG, OBJECT_ATTRIBUTES *, IO_STATUS_BLOCK *, ULONG, ULONG, ULONG,
                                     ULONG, ULONG, ULONG, ULONG, ULONG, ULONG, LARGE_INTEGER *);
NTSTATUS NTAPI NtFsControlFile(HANDLE, HANDLE, PIO_APC_ROUTINE, void *, IO_STATUS_BLOCK *, ULONG, void *, ULONG, void *,
                               ULONG);
NTSTATUS NTAPI NtReadFile(HANDLE, HANDLE, PIO_APC_ROUTINE, void *, IO_STATUS_BLOCK *, void *, ULONG, LARGE_INTEGER *,
                          ULONG *);
NTSTATUS NTAPI NtWriteFile(HANDLE, HANDLE, PIO_APC_ROUTINE, void *, IO_STATUS_BLOCK *, const void *, ULONG,
                           LARGE_INTEGER *, ULONG *);
NTSTATUS NTAPI NtCancelIoFileEx(HANDLE, IO_STATUS_BLOCK *, IO_STATUS_BLOCK *);
NTSTATUS NTAPI NtCreateEvent(HANDLE *, ACCESS_MASK, const OBJECT_ATTRIBUTES *, ULONG, BOOLEAN);
NTSTATUS NTAPI NtWaitForMultipleObjects(ULONG, const HANDLE *, ULONG, BOOLEAN, const LARGE_INTEGER *);
NTSTATUS NTAPI NtOpenProcess(HANDLE *, ACCESS_MASK, const OBJECT_ATTRIBUTES *, const CLIENT_ID *);
NTSYSAPI NTSTATUS NTAPI RtlQueryEnvironmentVariable_U(WCHAR **, UNICODE_STRING *, UNICODE_STRING *);
NTSTATUS NTAPI NtDuplicateObject(HANDLE, HANDLE, HANDLE, HANDLE *, ACCESS_MASK, ULONG, ULONG);
NTSTATUS NTAPI RtlCreateUserThread(HANDLE, void *, BOOLEAN, ULONG, SIZE_T, SIZE_T, void *, void *, HANDLE *,
                                   CLIENT_ID *);

enum { STREAM_INPUT, STREAM_OUTPUT, STREAM_ERROR, STREAMS };

// What mullion-init reads (internal/wine/launch, streams.go).
#define STARTED "s"
#define DONE "d"

// What a program sends, and gets. Handles are the program's; 0: none.
struct request {
    ULONG64 pid, done, stream[STREAMS];
};
struct reply {
    ULONG64 stream[STREAMS];
};

static const WCHAR control[] = L"\\??\\pipe\\mullion-streams";

// PIPE_BYTES is how much a pipe holds before its writer waits, and how much is copied at once. A pipe of Linux holds as
// much.
#define PIPE_BYTES 65536

#define SECONDS(n) (-10000000LL * (n)) // from now

enum { PIPE_QUEUE = 0, PIPE_BYTE = 0, PIPE_WAITS = 0, ANY = 1 /* WaitAny */, SYNCHRONIZATION_EVENT = 1 };
#define LISTEN 0x110008UL     // FSCTL_PIPE_LISTEN
#define DISCONNECT 0x110004UL // FSCTL_PIPE_DISCONNECT

static void name_object(OBJECT_ATTRIBUTES *attr, UNICODE_STRING *name, const WCHAR *text, ULONG flags)
{
    RtlInitUnicodeString(name, text);
    InitializeObjectAttributes(attr, name, OBJ_CASE_INSENSITIVE | flags, NULL, NULL);
}

// create_pipe makes the server's end of a pipe, whose calls do not wait.
static HANDLE create_pipe(const WCHAR *path, ULONG access, ULONG sharing)
{
    OBJECT_ATTRIBUTES attr;
    UNICODE_STRING name;
    IO_STATUS_BLOCK io;
    LARGE_INTEGER timeout = {.QuadPart = SECONDS(5)};
    HANDLE pipe;
    name_object(&attr, &name, path, 0);
    if (NtCreateNamedPipeFile(&pipe, access | SYNCHRONIZE, &attr, &io, sharing, FILE_CREATE, 0, PIPE_BYTE, PIPE_BYTE,
                              PIPE_QUEUE, 1, PIPE_BYTES, PIPE_BYTES, &timeout))
        return NULL;
    return pipe;
}

// open_pipe opens the client's end, whose calls wait.
static NTSTATUS open_pipe(const WCHAR *path, ULONG access, HANDLE *pipe)
{
    OBJECT_ATTRIBUTES attr;
    UNICODE_STRING name;
    IO_STATUS_BLOCK io;
    name_object(&attr, &name, path, 0);
    return NtOpenFile(pipe, access | SYNCHRONIZE, &attr, &io, FILE_SHARE_READ | FILE_SHARE_WRITE,
                      FILE_SYNCHRONOUS_IO_NONALERT | FILE_NON_DIRECTORY_FILE);
}

static HANDLE create_event(void)
{
    HANDLE event;
    return NtCreateEvent(&event, EVENT_ALL_ACCESS, NULL, SYNCHRONIZATION_EVENT, FALSE) ? NULL : event;
}

// finish waits for the end of a call, and cancels one that takes longer than the timeout.
static NTSTATUS finish(NTSTATUS status, HANDLE file, HANDLE event, IO_STATUS_BLOCK *io, LARGE_INTEGER *timeout)
{
    IO_STATUS_BLOCK ignored;
    if (status != STATUS_PENDING) return status;
    if (NtWaitForSingleObject(event, FALSE, timeout) == STATUS_TIMEOUT) {
        NtCancelIoFileEx(file, io, &ignored);
        NtWaitForSingleObject(event, FALSE, NULL);
    }
    return io->Status;
}

// The service manager's part.

// A program whose streams are copied.
struct program {
    HANDLE process, done;
    LONG copied, users; // outputs that are not copied yet, threads
};

struct stream {
    struct program *program;
    HANDLE pipe, file, event;
    BYTE *buffer;
    BOOL counted; // among copied
};

// output_copied is called when the program has ended, and an output of it has been copied.
static void output_copied(struct stream *s)
{
    IO_STATUS_BLOCK io;
    if (!s->counted) return;
    s->counted = FALSE;
    if (!InterlockedDecrement(&s->program->copied))
        NtWriteFile(s->program->done, NULL, NULL, NULL, &io, DONE, 1, NULL, NULL);
}

static void release_program(struct program *p)
{
    if (InterlockedDecrement(&p->users)) return;
    NtClose(p->process);
    if (p->done) NtClose(p->done);
    free_mem(p);
}

static void free_stream(struct stream *s)
{
    if (!s) return;
    if (s->pipe) NtClose(s->pipe);
    if (s->file) NtClose(s->file);
    if (s->event) NtClose(s->event);
    free_mem(s->buffer);
    if (s->program) {
        output_copied(s);
        release_program(s->program);
    }
    free_mem(s);
}

// await_output waits for output. If there is none and the program has ended, its output has been copied; other programs
// may go on to write.
static NTSTATUS await_output(struct stream *s, IO_STATUS_BLOCK *io)
{
    const HANDLE either[] = {s->event, s->program->process};
    LARGE_INTEGER now = {0};
    if (!s->counted || NtWaitForMultipleObjects(2, either, ANY, FALSE, NULL) != 0) {
        if (s->counted && NtWaitForSingleObject(s->event, FALSE, &now) == STATUS_SUCCESS) return io->Status;
        output_copied(s);
        NtWaitForSingleObject(s->event, FALSE, NULL);
    }
    return io->Status;
}

static DWORD WINAPI copy_output(void *arg)
{
    struct stream *s = arg;
    IO_STATUS_BLOCK io = {0}, written = {0};
    for (;;) {
        NTSTATUS status = NtReadFile(s->pipe, s->event, NULL, NULL, &io, s->buffer, PIPE_BYTES, NULL, NULL);
        if (status == STATUS_PENDING) status = await_output(s, &io);
        if (status) break; // all ends are closed
        if (NtWriteFile(s->file, NULL, NULL, NULL, &written, s->buffer, (ULONG)io.Information, NULL, NULL)) break;
    }
    free_stream(s);
    RtlExitUserThread(0);
    return 0;
}

static DWORD WINAPI copy_input(void *arg)
{
    struct stream *s = arg;
    IO_STATUS_BLOCK io = {0}, written = {0};
    for (;;) {
        NTSTATUS status = NtReadFile(s->file, NULL, NULL, NULL, &io, s->buffer, PIPE_BYTES, NULL, NULL);
        const ULONG n = (ULONG)io.Information;
        if (status || !n) break;
        status = NtWriteFile(s->pipe, s->event, NULL, NULL, &written, s->buffer, n, NULL, NULL);
        if (finish(status, s->pipe, s->event, &written, NULL)) break; // all readers are gone
    }
    free_stream(s);
    RtlExitUserThread(0);
    return 0;
}

// name_pipe gives each pipe another name. A program can open only one that waits for its client.
static void name_pipe(WCHAR *to, LONG number)
{
    static const WCHAR digits[] = L"0123456789abcdef";
    SIZE_T n = 0;
    for (; control[n]; n++) to[n] = control[n];
    to[n++] = '-';
    for (int shift = 28; shift >= 0; shift -= 4) to[n++] = digits[(number >> shift) & 15];
    to[n] = 0;
}

// begin_stream begins to copy one stream, and returns the handle that the program gets.
static HANDLE begin_stream(struct program *p, int which, HANDLE file)
{
    static LONG number;
    WCHAR name[ARRAYSIZE(control) + 10];
    const BOOL input = which == STREAM_INPUT;
    struct stream *s = alloc_mem(sizeof(*s));
    HANDLE client = NULL, given = NULL, thread;
    if (!s) return NULL;
    name_pipe(name, InterlockedIncrement(&number));
    s->buffer = alloc_mem(PIPE_BYTES);
    s->event = create_event();
    s->pipe = create_pipe(name, input ? GENERIC_WRITE : GENERIC_READ, input ? FILE_SHARE_READ : FILE_SHARE_WRITE);
    ULONG access = FILE_READ_ATTRIBUTES | FILE_WRITE_ATTRIBUTES | (input ? GENERIC_READ : GENERIC_WRITE);
    if (!s->buffer || !s->event || !s->pipe || open_pipe(name, access, &client) ||
        NtDuplicateObject(p->process, file, NtCurrentProcess(), &s->file, 0, 0, DUPLICATE_SAME_ACCESS) ||
        NtDuplicateObject(NtCurrentProcess(), client, p->process, &given, 0, OBJ_INHERIT, DUPLICATE_SAME_ACCESS)) {
        if (client) NtClose(client);
        free_stream(s);
        return NULL;
    }
    NtClose(client);
    s->program = p;
    s->counted = !input;
    InterlockedIncrement(&p->users);
    if (!input) InterlockedIncrement(&p->copied);
    void *copy = input ? (void *)copy_input : (void *)copy_output;
    if (RtlCreateUserThread(NtCurrentProcess(), NULL, FALSE, 0, 0, 0, copy, s, &thread, NULL)) {
        free_stream(s); // the program gets a broken pipe
        return given;
    }
    NtClose(thread);
    return given;
}

static void begin_program(const struct request *r, struct reply *out)
{
    OBJECT_ATTRIBUTES attr = {.Length = sizeof(attr)};
    const CLIENT_ID id = {.UniqueProcess = (HANDLE)(ULONG_PTR)r->pid};
    struct program *p = alloc_mem(sizeof(*p));
    memset(out, 0, sizeof(*out));
    if (!p) return;
    p->users = p->copied = 1; // this function is one, so that the threads do not free it
    if (NtOpenProcess(&p->process, PROCESS_DUP_HANDLE | SYNCHRONIZE, &attr, &id)) {
        free_mem(p);
        return;
    }
    if (NtDuplicateObject(p->process, (HANDLE)(ULONG_PTR)r->done, NtCurrentProcess(), &p->done, 0, 0,
                          DUPLICATE_SAME_ACCESS))
        p->done = NULL;
    for (int i = 0; i < STREAMS; i++)
        if (r->stream[i]) out->stream[i] = (ULONG_PTR)begin_stream(p, i, (HANDLE)(ULONG_PTR)r->stream[i]);
    struct stream self = {.program = p, .counted = TRUE};
    output_copied(&self);
    release_program(p);
}

// serve answers one program after the other. One that does not send what it should cannot keep the others waiting.
static DWORD WINAPI serve(void *pipe)
{
    LARGE_INTEGER limit = {.QuadPart = SECONDS(5)};
    HANDLE event = create_event();
    IO_STATUS_BLOCK io = {0};
    struct request request;
    struct reply reply;
    while (event) {
        NTSTATUS status = NtFsControlFile(pipe, event, NULL, NULL, &io, LISTEN, NULL, 0, NULL, 0);
        finish(status, pipe, event, &io, NULL);
        status = NtReadFile(pipe, event, NULL, NULL, &io, &request, sizeof(request), NULL, NULL);
        if (!finish(status, pipe, event, &io, &limit) && io.Information == sizeof(request)) {
            begin_program(&request, &reply);
            status = NtWriteFile(pipe, event, NULL, NULL, &io, &reply, sizeof(reply), NULL, NULL);
            finish(status, pipe, event, &io, &limit);
            // To disconnect would take the reply away from a program that has not read it.
            status = NtReadFile(pipe, event, NULL, NULL, &io, &request, 1, NULL, NULL);
            finish(status, pipe, event, &io, &limit);
        }
        status = NtFsControlFile(pipe, event, NULL, NULL, &io, DISCONNECT, NULL, 0, NULL, 0);
        finish(status, pipe, event, &io, NULL);
    }
    return 0;
}

// serve_streams makes the pipe at once, so that the first program finds it.
static BOOL serve_streams(void)
{
    HANDLE thread, pipe = create_pipe(control, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE);
    if (!pipe || RtlCreateUserThread(NtCurrentProcess(), NULL, FALSE, 0, 0, 0, (void *)serve, pipe, &thread, NULL))
        return FALSE;
    NtClose(thread);
    return TRUE;
}

// The program's part.

static BOOL is_unix_pipe(int fd, struct linux_stat *st)
{
    return !linux_call(LINUX_fstat, fd, (long long)st, 0, 0, 0) && (st->mode & LINUX_S_IFMT) == LINUX_S_IFIFO;
}

// exchange sends a request to the service manager, which may be busy with another program.
static BOOL exchange(const struct request *request, struct reply *reply)
{
    HANDLE pipe;
    IO_STATUS_BLOCK io;
    const LARGE_INTEGER pause = {.QuadPart = -10000}; // 1 ms
    NTSTATUS status = STATUS_PIPE_NOT_AVAILABLE;
    for (int i = 0; i < 10000 && status; i++) {
        status = open_pipe(control, GENERIC_READ | GENERIC_WRITE, &pipe);
        if (status == STATUS_OBJECT_NAME_NOT_FOUND) return FALSE; // no service manager
        if (status) NtDelayExecution(FALSE, &pause);
    }
    if (status) return FALSE;
    status = NtWriteFile(pipe, NULL, NULL, NULL, &io, request, sizeof(*request), NULL, NULL);
    if (!status) status = NtReadFile(pipe, NULL, NULL, NULL, &io, reply, sizeof(*reply), NULL, NULL);
    NtClose(pipe);
    return !status && io.Information == sizeof(*reply);
}

// take_streams puts named pipes in the place of the Unix pipes that the program has got.
static void take_streams(int done)
{
    NTSTATUS(CDECL * to_handle)(int, unsigned, unsigned, HANDLE *);
    to_handle = find_function(L"ntdll.dll", "wine_server_fd_to_handle");
    RTL_USER_PROCESS_PARAMETERS *params = NtCurrentTeb()->ProcessEnvironmentBlock->ProcessParameters;
    HANDLE *streams = (HANDLE *)((char *)params + 0x20), finished = NULL; // hStdInput, hStdOutput, hStdError
    struct request request = {.pid = *(ULONG_PTR *)((char *)NtCurrentTeb() + 0x40)}; // ClientId.UniqueProcess
    struct reply reply = {0};
    struct linux_stat st[STREAMS];
    if (!to_handle || to_handle(done, GENERIC_WRITE | SYNCHRONIZE, 0, &finished)) return;
    request.done = (ULONG_PTR)finished;
    for (int i = 0; i < STREAMS; i++)
        if (streams[i] && is_unix_pipe(i, &st[i])) request.stream[i] = (ULONG_PTR)streams[i];
    const BOOL one = request.stream[STREAM_OUTPUT] && request.stream[STREAM_ERROR] &&
                     st[STREAM_OUTPUT].ino == st[STREAM_ERROR].ino && st[STREAM_OUTPUT].dev == st[STREAM_ERROR].dev;
    if (one) request.stream[STREAM_ERROR] = 0; // in two pipes the order would be lost
    const BOOL output = request.stream[STREAM_OUTPUT] || request.stream[STREAM_ERROR];
    if (output) linux_call(LINUX_write, done, (long long)STARTED, 1, 0, 0);
    if (!exchange(&request, &reply) && output) linux_call(LINUX_write, done, (long long)DONE, 1, 0, 0);
    NtClose(finished);
    HANDLE copy, from = (HANDLE)(ULONG_PTR)reply.stream[STREAM_OUTPUT];
    if (one && from &&
        !NtDuplicateObject(NtCurrentProcess(), from, NtCurrentProcess(), &copy, 0, OBJ_INHERIT, DUPLICATE_SAME_ACCESS))
        reply.stream[STREAM_ERROR] = (ULONG_PTR)copy;
    // Wine's own texts, on standard error, are not the program's.
    long long null = linux_call(LINUX_open, (long long)"/dev/null", LINUX_O_RDWR | LINUX_O_CLOEXEC, 0, 0, 0);
    for (int i = 0; i < STREAMS; i++) {
        if (!reply.stream[i]) continue;
        NtClose(streams[i]);
        streams[i] = (HANDLE)(ULONG_PTR)reply.stream[i];
        if (null >= 0) linux_call(LINUX_dup2, null, i, 0, 0, 0);
    }
    if (null >= 0) linux_call(LINUX_close, null, 0, 0, 0, 0);
}

// take_descriptor takes the number of mullion-init's descriptor out of the environment. -1: mullion-init did not start
// this process.
static int take_descriptor(void)
{
    WCHAR text[8];
    UNICODE_STRING name, value = {0, sizeof(text), text};
    RtlInitUnicodeString(&name, L"MULLION_STREAMS");
    if (RtlQueryEnvironmentVariable_U(NULL, &name, &value) || value.Length != sizeof(WCHAR)) return -1;
    RtlSetEnvironmentVariable(NULL, &name, NULL);
    return text[0] - '0';
}

void mend_streams(void)
{
    const int done = take_descriptor();
    if (is_image(L"\\services.exe")) serve_streams();
    if (done < 0) return;
    if (!is_image(L"\\wineboot.exe") && !is_image(L"\\services.exe")) take_streams(done);
    linux_call(LINUX_close, done, 0, 0, 0, 0);
}
