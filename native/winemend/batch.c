// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Ctrl+C and Ctrl+Break in cmd.exe while a batch file, or a line that was typed, runs.
// As soon as the command that was interrupted has ended, Windows asks whether to end
// the batch file, or prompts again; Wine's cmd.exe goes on, or ends itself.

#include "winemend.h"

static volatile LONG interrupted; // a control event has come
static BOOL ending;               // the answer was yes, or there was nothing to ask
static BOOL running;
static BOOL prompts; // this cmd.exe does, when its batch files have ended

void batch_runs(BOOL yes) { running = yes; }

BOOL batch_running(void) { return running; }

BOOL batch_pending(void) { return running && interrupted; }

BOOL batch_skips(void) { return ending; }

BOOL batch_stops(void) { return (running || prompts) && interrupted && !ending; }

// A read must end when an event comes, even if it comes between the last look for one and the read. The console ends
// reads that have begun. One that has not ended after a while gets Ctrl+C once more: as a key that is read, or, if it is
// a line that is read, as another event.
enum { NO_READ, READS, GETS_KEY };
static volatile LONG reads; // what the thread that runs the commands does
static BOOL reads_line;
static volatile LONG own_event; // the next event comes from give_key

BOOL batch_read_begins(BOOL line)
{
    if (!running && !prompts) return TRUE;
    reads_line = line;
    InterlockedExchange(&reads, READS);
    return !interrupted || InterlockedCompareExchange(&reads, NO_READ, READS) == GETS_KEY;
}

void batch_read_ends(void) { InterlockedExchange(&reads, NO_READ); }

// give_key writes Ctrl+C to the console's input.
static void give_key(void)
{
    HANDLE(WINAPI * open)(const WCHAR *, DWORD, DWORD, SECURITY_ATTRIBUTES *, DWORD, DWORD, HANDLE);
    BOOL(WINAPI * write)(HANDLE, const INPUT_RECORD *, DWORD, DWORD *);
    BOOL(WINAPI * close)(HANDLE);
    open = find_function(L"kernelbase.dll", "CreateFileW");
    write = find_function(L"kernelbase.dll", "WriteConsoleInputW");
    close = find_function(L"kernelbase.dll", "CloseHandle");
    if (!open || !write || !close) return;
    const DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE;
    HANDLE in = open(L"CONIN$", GENERIC_READ | GENERIC_WRITE, share, NULL, OPEN_EXISTING, 0, NULL);
    if (in == INVALID_HANDLE_VALUE) return;
    INPUT_RECORD key = {.EventType = KEY_EVENT,
                        .Event.KeyEvent = {.bKeyDown = TRUE, .wRepeatCount = 1, .wVirtualKeyCode = 'C',
                                           .uChar.UnicodeChar = 3, .dwControlKeyState = LEFT_CTRL_PRESSED}};
    DWORD wrote;
    write(in, &key, 1, &wrote);
    close(in);
}

// end_read ends a read of a command that had not begun when the event came.
static void end_read(void)
{
    const LARGE_INTEGER step = {.QuadPart = -100000}; // 10 ms
    for (int i = 0; i < 100 && reads == READS; i++) NtDelayExecution(FALSE, &step);
    if (InterlockedCompareExchange(&reads, GETS_KEY, READS) != READS) return;
    InterlockedExchange(&own_event, reads_line);
    give_key();
}

BOOL batch_interrupted(void)
{
    if (InterlockedExchange(&own_event, FALSE)) return TRUE;
    if (!running && !prompts) return FALSE;
    InterlockedExchange(&interrupted, TRUE);
    end_read();
    return TRUE;
}

// await_event waits for the thread that the event starts in this process, after its
// other effects have been seen.
static void await_event(void)
{
    const LARGE_INTEGER step = {.QuadPart = -10000}; // 1 ms
    for (int i = 0; i < 500 && !interrupted; i++) NtDelayExecution(FALSE, &step);
}

void batch_read_interrupted(void)
{
    await_event();
    InterlockedExchange(&interrupted, TRUE);
}

void batch_key(void)
{
    if (running || prompts) InterlockedExchange(&interrupted, TRUE);
}

// The console, whatever the batch file's input and output are.
struct terminal {
    HANDLE in, out;
    BOOL(WINAPI *read)(HANDLE, void *, DWORD, DWORD *, void *);
    BOOL(WINAPI *write)(HANDLE, const void *, DWORD, DWORD *, void *);
    BOOL(WINAPI *close)(HANDLE);
};

static BOOL open_terminal(struct terminal *t)
{
    HANDLE(WINAPI * open)(const WCHAR *, DWORD, DWORD, SECURITY_ATTRIBUTES *, DWORD, DWORD, HANDLE);
    open = find_function(L"kernelbase.dll", "CreateFileW");
    t->read = find_function(L"kernelbase.dll", "ReadConsoleW");
    t->write = find_function(L"kernelbase.dll", "WriteConsoleW");
    t->close = find_function(L"kernelbase.dll", "CloseHandle");
    if (!open || !t->read || !t->write || !t->close) return FALSE;
    const DWORD access = GENERIC_READ | GENERIC_WRITE, share = FILE_SHARE_READ | FILE_SHARE_WRITE;
    t->in = open(L"CONIN$", access, share, NULL, OPEN_EXISTING, 0, NULL);
    t->out = open(L"CONOUT$", access, share, NULL, OPEN_EXISTING, 0, NULL);
    if (t->in != INVALID_HANDLE_VALUE && t->out != INVALID_HANDLE_VALUE) return TRUE;
    if (t->in != INVALID_HANDLE_VALUE) t->close(t->in);
    if (t->out != INVALID_HANDLE_VALUE) t->close(t->out);
    return FALSE;
}

static void close_terminal(const struct terminal *t)
{
    t->close(t->in);
    t->close(t->out);
}

static void show_interrupt(void)
{
    struct terminal t;
    DWORD n;
    if (!open_terminal(&t)) return;
    t.write(t.out, L"^C\r\n", 4, &n, NULL);
    close_terminal(&t);
}

// end_line skips what is left of a line that was typed.
static void end_line(void)
{
    InterlockedExchange(&interrupted, FALSE);
    show_interrupt();
    ending = TRUE;
}

void batch_program_ended(DWORD code)
{
    if (code != (DWORD)STATUS_CONTROL_C_EXIT) return;
    if (running || prompts) await_event();
    if (!running && prompts) end_line();
}

// ask reports whether to end the batch file. Ctrl+C is a yes.
static BOOL ask(void)
{
    static const WCHAR question[] = L"Terminate batch job (Y/N)? ";
    struct terminal t;
    WCHAR answer[256], key;
    DWORD n;
    if (!open_terminal(&t)) return TRUE;
    t.write(t.out, L"^C", 2, &n, NULL);
    do {
        InterlockedExchange(&interrupted, FALSE);
        t.write(t.out, question, ARRAYSIZE(question) - 1, &n, NULL);
        BOOL ok = batch_read_begins(TRUE) && t.read(t.in, answer, ARRAYSIZE(answer), &n, NULL);
        batch_read_ends();
        key = ok && n && !interrupted ? answer[0] & ~32 : 'Y'; // upper case
    } while (key != 'Y' && key != 'N');
    InterlockedExchange(&interrupted, FALSE);
    close_terminal(&t);
    return key == 'Y';
}

BOOL batch_ending(void)
{
    if (!ending && batch_pending()) {
        ending = ask();
        if (ending && !prompts) {
            void(WINAPI * end)(UINT) = find_function(L"kernel32.dll", "ExitProcess");
            if (end) end((UINT)STATUS_CONTROL_C_EXIT);
        }
    }
    if (!ending && !running && prompts && interrupted) end_line();
    return ending;
}

void batch_prompts(BOOL yes) { prompts = yes; }

void batch_over(void)
{
    ending = FALSE;
    InterlockedExchange(&interrupted, FALSE);
}
