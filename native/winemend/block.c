// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Redirections of a block, "( commands ) > file" and "( commands ) | program".
// Wine's cmd.exe takes them for those of the next command, or drops them. Here the
// text of a line is changed before it is parsed (block_text.c), so that
//
//     ( commands ) > file
//
// becomes, with OPEN and CLOSE for characters that no text has,
//
//     (rem OPEN > file & if defined OPEN ( commands ) & rem CLOSE)
//
// Wine opens the file for the first rem, and what it does to take the redirection
// back is held off until the last. The redirection is made each time a loop gets
// there, and a block whose file cannot be opened is left out, as on Windows.

#include "winemend.h"

#define FRAMES 64 // blocks with redirections inside of each other, and batch files that call each other

static HANDLE(WINAPI *real_CreateFileW)(const WCHAR *, DWORD, DWORD, SECURITY_ATTRIBUTES *, DWORD, DWORD, HANDLE);
static BOOL(WINAPI *real_CloseHandle)(HANDLE);
static HANDLE(WINAPI *real_GetStdHandle)(DWORD);
static BOOL(WINAPI *real_SetStdHandle)(DWORD, HANDLE);
static BOOL(WINAPI *real_ReadFile)(HANDLE, void *, DWORD, DWORD *, OVERLAPPED *);
static BOOL(WINAPI *real_SetFilePointerEx)(HANDLE, LARGE_INTEGER, LARGE_INTEGER *, DWORD);
static int(WINAPI *real_MultiByteToWideChar)(UINT, DWORD, const char *, int, WCHAR *, int);
static int(WINAPI *real_WideCharToMultiByte)(UINT, DWORD, const WCHAR *, int, char *, int, const char *, BOOL *);
static BOOL(WINAPI *real_WriteConsoleW)(HANDLE, const void *, DWORD, DWORD *, void *);
static DWORD(WINAPI *real_GetEnvironmentVariableW)(const WCHAR *, WCHAR *, DWORD);
static WCHAR *(WINAPI *real_GetCommandLineW)(void);

// What a block's redirections have changed, by standard handle.
struct frame {
    HANDLE old[3], now[3]; // NULL in now: unchanged
    SIZE_T depth;          // of the batch file that the block is in
    BOOL failed;
};

static struct frame frames[FRAMES], closed; // closed: the one that CLOSE has ended last
static SIZE_T count;
static BOOL opening; // OPEN's own redirections are being made, and taken back

// The batch files that run, the first at first.
static struct {
    HANDLE handle;
    LONGLONG at; // where the line that is read begins
} files[FRAMES];
static SIZE_T depth;

static SIZE_T slot(DWORD which) { return (SIZE_T)((DWORD)STD_INPUT_HANDLE - which); }

static DWORD standard(SIZE_T slot) { return (DWORD)STD_INPUT_HANDLE - (DWORD)slot; }

// take_back ends the innermost block.
static void take_back(void)
{
    closed = frames[--count];
    for (SIZE_T i = 0; i < 3; i++) {
        if (!closed.now[i]) continue;
        real_CloseHandle(closed.now[i]);
        real_SetStdHandle(standard(i), closed.old[i]);
    }
}

// leave ends the blocks of a batch file, which goto or exit /b has left.
static void leave(SIZE_T at)
{
    while (count && frames[count - 1].depth >= at) take_back();
}

void block_mark(const WCHAR *command)
{
    static const struct frame none;
    opening = FALSE;
    closed = none;
    if (!command) return;
    if (*command == BLOCK_OPEN && count < FRAMES) {
        frames[count] = none;
        frames[count++].depth = depth;
        opening = TRUE;
    } else if (*command == BLOCK_CLOSE && count) {
        take_back();
    }
}

static BOOL WINAPI mend_SetStdHandle(DWORD which, HANDLE handle)
{
    SIZE_T i = slot(which);
    if (i < 3 && closed.now[i] && handle == closed.now[i]) return TRUE; // Wine takes back what CLOSE did
    if (opening && i < 3) {
        struct frame *f = &frames[count - 1];
        if (f->now[i] && handle == f->old[i]) return TRUE; // and what OPEN did
        if (!f->now[i]) f->old[i] = real_GetStdHandle(which);
        f->now[i] = handle;
    }
    return real_SetStdHandle(which, handle);
}

// Wine asks for the place in a file only before it reads a line of a batch file.
static HANDLE line_file;
static HANDLE line_pipe; // the same of one that has no place

static BOOL WINAPI mend_CloseHandle(HANDLE handle)
{
    // The next file that is opened may get the same handle.
    if (handle == line_file) line_file = NULL;
    if (handle == line_pipe) line_pipe = NULL;
    for (SIZE_T i = 0; i < 3; i++) {
        if (closed.now[i] && handle == closed.old[i]) return TRUE;
        if (opening && handle && handle == frames[count - 1].now[i]) return TRUE;
    }
    for (SIZE_T i = 0; i < depth; i++) {
        if (files[i].handle != handle) continue;
        leave(i + 1);
        depth = i;
        batch_runs(depth > 0);
    }
    return real_CloseHandle(handle);
}

static HANDLE WINAPI mend_CreateFileW(const WCHAR *path, DWORD access, DWORD share, SECURITY_ATTRIBUTES *security,
                                      DWORD disposition, DWORD flags, HANDLE template)
{
    if (batch_ending()) path = L"NUL"; // a redirection of a command that is skipped
    if (access == GENERIC_READ && is_block_pipe(path)) {
        share |= FILE_SHARE_DELETE;
        flags |= FILE_FLAG_DELETE_ON_CLOSE;
    }
    HANDLE handle = real_CreateFileW(path, access, share, security, disposition, flags, template);
    if (opening && handle == INVALID_HANDLE_VALUE) frames[count - 1].failed = TRUE;
    return handle;
}

static DWORD WINAPI mend_GetEnvironmentVariableW(const WCHAR *name, WCHAR *value, DWORD size)
{
    if (name && *name == BLOCK_OPEN) return count && !frames[count - 1].failed;
    if (name && *name == CHAIN_TEST) return !chain_failed();
    return real_GetEnvironmentVariableW(name, value, size);
}

static BOOL WINAPI mend_SetFilePointerEx(HANDLE file, LARGE_INTEGER to, LARGE_INTEGER *at, DWORD method)
{
    BOOL ok = real_SetFilePointerEx(file, to, at, method);
    if (method != FILE_CURRENT) return ok;
    line_pipe = ok ? NULL : file;
    if (!ok) return ok;
    line_file = file;
    SIZE_T i = 0;
    while (i < depth && files[i].handle != file) i++;
    if (i == FRAMES) line_file = NULL;
    else files[i].at = at->QuadPart;
    return ok;
}

static const void *line_bytes; // what was read for a line

// read_line reads no more than one line, so that what follows is there for the programs that the line runs and for the
// next one. Wine 8 reads as much as there is, and then cannot go back in a pipe.
static BOOL read_line(HANDLE pipe, char *buffer, DWORD size, DWORD *done)
{
    BOOL ok = TRUE;
    DWORD got = 1;
    for (*done = 0; got && *done < size && (!*done || buffer[*done - 1] != '\n'); *done += got) {
        got = 0;
        ok = real_ReadFile(pipe, buffer + *done, 1, &got, NULL);
        if (!ok) got = 0;
    }
    return ok || *done;
}

static BOOL WINAPI mend_ReadFile(HANDLE file, void *buffer, DWORD size, DWORD *done, OVERLAPPED *overlapped)
{
    if (file && file == line_pipe) {
        line_bytes = buffer;
        return read_line(file, buffer, size, done);
    }
    line_bytes = line_file == file ? buffer : NULL;
    // The end of the file: for a batch file that ends, and for a command such as `type` that an event ends.
    if (line_bytes ? batch_ending() : batch_stops()) {
        *done = 0;
        return TRUE;
    }
    return real_ReadFile(file, buffer, size, done, overlapped);
}

// is_local reports whether memory is on the stack. Wine reads the lines that it is
// going to run into other memory, and answers, and what goto looks at, there.
static BOOL is_local(const void *p)
{
    const NT_TIB *tib = (const NT_TIB *)NtCurrentTeb();
    return (ULONG_PTR)p >= (ULONG_PTR)tib->StackLimit && (ULONG_PTR)p < (ULONG_PTR)tib->StackBase;
}

static BOOL prompted; // what was printed last does not end its line: echo is on

static void note_printed(const WCHAR *text, SIZE_T n)
{
    if (n) prompted = text[n - 1] != '\n';
}

// show_line shows a line from a pipe behind the prompt, as Windows does.
static void show_line(const char *text, int n)
{
    BOOL(WINAPI * write)(HANDLE, const void *, DWORD, DWORD *, OVERLAPPED *);
    write = find_function(L"kernelbase.dll", "WriteFile");
    HANDLE output = real_GetStdHandle(STD_OUTPUT_HANDLE);
    DWORD done;
    if (write && write(output, text, (DWORD)n, &done, NULL)) write(output, "\r\n", 2, &done, NULL);
    prompted = FALSE;
}

static int WINAPI mend_MultiByteToWideChar(UINT page, DWORD flags, const char *from, int n, WCHAR *to, int size)
{
    HANDLE file = line_file;
    int length = real_MultiByteToWideChar(page, flags, from, n, to, size);
    if (line_pipe && from == line_bytes) {
        DWORD typed = (DWORD)length;
        if (!is_local(to) && prompted) show_line(from, n);
        block_reads(to);
        block_prompt(to, (DWORD)size, &typed);
        line_pipe = NULL;
        line_bytes = NULL;
        return (int)typed;
    }
    if (!file || from != line_bytes || is_local(to)) return length;
    line_bytes = line_file = NULL;
    SIZE_T i = 0;
    while (i < depth && files[i].handle != file) i++;
    LONGLONG at = files[i].at;
    files[i].handle = file;
    depth = i + 1;
    batch_runs(TRUE);
    leave(depth);

    char *text = alloc_mem(BLOCK_SIZE);
    DWORD got = 0;
    LARGE_INTEGER next = {.QuadPart = 0}, begin = {.QuadPart = at};
    if (!text || !real_SetFilePointerEx(file, next, &next, FILE_CURRENT)) return length;
    if (real_SetFilePointerEx(file, begin, NULL, FILE_BEGIN) && real_ReadFile(file, text, BLOCK_SIZE, &got, NULL))
        length = mend_batch_line(text, got, at, (SIZE_T)n, to, length, size);
    real_SetFilePointerEx(file, next, NULL, FILE_BEGIN);
    free_mem(text);
    return length;
}

BOOL block_reads(const WCHAR *line)
{
    if (is_local(line)) return FALSE;
    batch_over();
    return TRUE;
}

void block_prompt(WCHAR *line, DWORD size, DWORD *length)
{
    if (is_local(line)) return;
    leave(0);
    *length = (DWORD)mend_line(line, *length, size);
}

static BOOL WINAPI mend_WriteConsoleW(HANDLE console, const void *text, DWORD n, DWORD *wrote, void *reserved)
{
    note_printed(text, n);
    WCHAR *shown = block_shown(text, n);
    if (!shown) return real_WriteConsoleW(console, text, n, wrote, reserved);
    SIZE_T length = 0;
    while (shown[length]) length++;
    BOOL ok = real_WriteConsoleW(console, shown, (DWORD)length, wrote, reserved);
    free_mem(shown);
    return ok;
}

static int WINAPI mend_WideCharToMultiByte(UINT page, DWORD flags, const WCHAR *from, int n, char *to, int size,
                                           const char *other, BOOL *used)
{
    if (n > 0) note_printed(from, (SIZE_T)n);
    WCHAR *shown = n > 0 ? block_shown(from, (SIZE_T)n) : NULL;
    if (!shown) return real_WideCharToMultiByte(page, flags, from, n, to, size, other, used);
    n = 0;
    while (shown[n]) n++;
    int bytes = real_WideCharToMultiByte(page, flags, shown, n, to, size, other, used);
    free_mem(shown);
    return bytes;
}

// The command line, of which cmd.exe runs what follows /c or /k.
static WCHAR *WINAPI mend_GetCommandLineW(void)
{
    static WCHAR line[BLOCK_LINE];
    if (*line) return line;
    const WCHAR *real = real_GetCommandLineW();
    SIZE_T n = 0, begin, quote;
    while (real[n] && n < BLOCK_LINE - 1) line[n] = real[n], n++;
    if (real[n]) return (WCHAR *)real;
    line[n] = 0;
    for (begin = 0; begin + 1 < n; begin++) {
        WCHAR option = line[begin + 1] | 32; // lower case
        if (line[begin] == '/' && (option == 'c' || option == 'k' || option == 'r')) break;
    }
    for (begin += 2; begin < n && (line[begin] == ' ' || line[begin] == '\t'); begin++) continue;
    if (begin >= n) return line;
    for (quote = n; line[begin] == '"' && quote > begin + 1; quote--)
        if (line[quote - 1] == '"') break;
    if (line[begin] != '"' || quote <= begin + 1) {
        n = begin + mend_line(line + begin, n - begin, BLOCK_LINE - 1 - begin);
        line[n] = 0;
        return line;
    }
    begin++; // the quotes are taken off
    n = begin + mend_line(line + begin, quote - 1 - begin, BLOCK_LINE / 2);
    for (const WCHAR *rest = real + quote - 1; *rest && n < BLOCK_LINE - 1; rest++) line[n++] = *rest;
    line[n] = 0;
    return line;
}

void mend_blocks(HMODULE program)
{
    const struct import functions[] = {
        {"GetStdHandle", NULL, &real_GetStdHandle},
        {"CreateFileW", (void *)mend_CreateFileW, &real_CreateFileW},
        {"CloseHandle", (void *)mend_CloseHandle, &real_CloseHandle},
        {"SetStdHandle", (void *)mend_SetStdHandle, &real_SetStdHandle},
        {"ReadFile", (void *)mend_ReadFile, &real_ReadFile},
        {"SetFilePointerEx", (void *)mend_SetFilePointerEx, &real_SetFilePointerEx},
        {"MultiByteToWideChar", (void *)mend_MultiByteToWideChar, &real_MultiByteToWideChar},
        {"WideCharToMultiByte", (void *)mend_WideCharToMultiByte, &real_WideCharToMultiByte},
        {"WriteConsoleW", (void *)mend_WriteConsoleW, &real_WriteConsoleW},
        {"GetEnvironmentVariableW", (void *)mend_GetEnvironmentVariableW, &real_GetEnvironmentVariableW},
        {"GetCommandLineW", (void *)mend_GetCommandLineW, &real_GetCommandLineW},
    };
    replace_imports(program, functions, ARRAYSIZE(functions));
}
