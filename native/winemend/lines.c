// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Where cmd.exe's lines come from: which batch files run, for Ctrl+C, and lines from standard input that is no console.
// Windows' cmd.exe shows those behind the prompt, and reads no more than one line, so that the programs that it runs can
// read the next one. Wine's reads as much as there is, and then cannot go back in a pipe (WCMD_fgets in
// programs/cmd/batch.c).

#include "winemend.h"

#define DEEPEST 64

static HANDLE(WINAPI *real_CreateFileW)(const WCHAR *, DWORD, DWORD, SECURITY_ATTRIBUTES *, DWORD, DWORD, HANDLE);
static BOOL(WINAPI *real_CloseHandle)(HANDLE);
static HANDLE(WINAPI *real_GetStdHandle)(DWORD);
static BOOL(WINAPI *real_ReadFile)(HANDLE, void *, DWORD, DWORD *, OVERLAPPED *);
static BOOL(WINAPI *real_SetFilePointerEx)(HANDLE, LARGE_INTEGER, LARGE_INTEGER *, DWORD);
static void(__cdecl *real_free)(void *);

// The names of the batch files that run, where cmd.exe has them: the one that was started first at first.
static const void *batches[DEEPEST];
static SIZE_T depth;

static HANDLE batch_file; // is open for one line, or for a label
static HANDLE input;      // standard input, if a line is read from it
static BOOL prompted;     // there is a prompt, and no line behind it

void lines_prompt(void) { prompted = !depth; }

// begin_batch is called for each line of a batch file.
static void begin_batch(const void *name)
{
    SIZE_T i = 0;
    while (i < depth && batches[i] != name) i++;
    if (i == depth && depth < DEEPEST) batches[depth++] = name;
    batch_runs(TRUE);
}

// cmd.exe frees the name of a batch file that has ended.
static void __cdecl mend_free(void *p)
{
    for (SIZE_T i = 0; p && i < depth; i++) {
        if (batches[i] != p) continue;
        depth = i;
        batch_runs(depth > 0);
    }
    real_free(p);
}

// without_quotes leaves out the quotes that a file has for which a variable stands, as in "> %i".
static const WCHAR *without_quotes(const WCHAR *path)
{
    static WCHAR name[1024];
    SIZE_T n = 0;
    for (const WCHAR *p = path; *p; p++) {
        if (n == ARRAYSIZE(name) - 1) return path;
        if (*p != '"') name[n++] = *p;
    }
    name[n] = 0;
    return name;
}

static HANDLE WINAPI mend_CreateFileW(const WCHAR *path, DWORD access, DWORD share, SECURITY_ATTRIBUTES *security,
                                      DWORD disposition, DWORD flags, HANDLE template)
{
    // Only batch files may be removed meanwhile.
    const BOOL batch = access == GENERIC_READ && share == (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE);
    if (batch) begin_batch(path);
    if (security) path = without_quotes(path); // of a redirection
    // Windows' cmd.exe reads files that are being written, such as logs.
    if (access == GENERIC_READ && share == FILE_SHARE_READ) share |= FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    if (batch_ending()) path = L"NUL"; // also for a redirection of a command that is skipped
    HANDLE handle = real_CreateFileW(path, access, share, security, disposition, flags, template);
    if (batch) batch_file = handle;
    if (security && handle == INVALID_HANDLE_VALUE) level_follows(1);
    return handle;
}

static BOOL WINAPI mend_CloseHandle(HANDLE handle)
{
    if (handle == batch_file) batch_file = NULL;
    return real_CloseHandle(handle);
}

// cmd.exe looks for its place in a file before it reads a line.
static BOOL WINAPI mend_SetFilePointerEx(HANDLE file, LARGE_INTEGER to, LARGE_INTEGER *at, DWORD method)
{
    input = method == FILE_CURRENT && file == real_GetStdHandle(STD_INPUT_HANDLE) ? file : NULL;
    return real_SetFilePointerEx(file, to, at, method);
}

// show_line shows a line behind the prompt.
static void show_line(const char *text, DWORD n)
{
    BOOL(WINAPI * write)(HANDLE, const void *, DWORD, DWORD *, OVERLAPPED *);
    write = find_function(L"kernelbase.dll", "WriteFile");
    HANDLE output = real_GetStdHandle(STD_OUTPUT_HANDLE);
    DWORD done;
    while (n && (text[n - 1] == '\r' || text[n - 1] == '\n')) n--;
    if (write && write(output, text, n, &done, NULL)) write(output, "\r\n", 2, &done, NULL);
}

void lines_typed(const WCHAR *text, DWORD n)
{
    for (DWORD i = 0; i < n; i++)
        if (text[i] > ' ') return;
    if (prompted) show_line(NULL, 0);
}

static BOOL read_line(HANDLE from, char *buffer, DWORD size, DWORD *done)
{
    BOOL ok = TRUE;
    DWORD got = 1;
    for (*done = 0; got && *done < size && (!*done || buffer[*done - 1] != '\n'); *done += got) {
        got = 0;
        ok = real_ReadFile(from, buffer + *done, 1, &got, NULL);
        if (!ok) got = 0;
    }
    batch_over();
    level_prompts();
    if (*done && prompted) show_line(buffer, *done);
    DWORD n = 0;
    while (n < *done && (unsigned char)buffer[n] <= ' ') n++;
    if (*done && prompted && n == *done) show_line(NULL, 0); // as lines_typed does
    prompted = FALSE;
    return ok || *done;
}

static BOOL WINAPI mend_ReadFile(HANDLE file, void *buffer, DWORD size, DWORD *done, OVERLAPPED *overlapped)
{
    BOOL line = file && file == input && done && !overlapped;
    input = NULL;
    if (line) return read_line(file, buffer, size, done);
    // The end of the file: for a batch file that ends, and for a command such as `type` that an event ends.
    if (done && (file == batch_file ? batch_ending() : batch_stops())) {
        *done = 0;
        return TRUE;
    }
    return real_ReadFile(file, buffer, size, done, overlapped);
}

void mend_lines(HMODULE program)
{
    const struct import functions[] = {
        {"CreateFileW", (void *)mend_CreateFileW, &real_CreateFileW},
        {"CloseHandle", (void *)mend_CloseHandle, &real_CloseHandle},
        {"GetStdHandle", NULL, &real_GetStdHandle},
        {"ReadFile", (void *)mend_ReadFile, &real_ReadFile},
        {"SetFilePointerEx", (void *)mend_SetFilePointerEx, &real_SetFilePointerEx},
        {"free", (void *)mend_free, &real_free},
    };
    replace_imports(program, functions, ARRAYSIZE(functions));
}
