// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Completion of names in cmd.exe by Tab and Shift+Tab. The rules are those of
// "cmd /?" on Windows: the path to the left of the cursor is completed, what is to
// the right of it is dropped, and a path with special characters gets quotes.
// Windows' cmd.exe reads its lines like this, too: ReadConsoleW returns at Tab
// (CONSOLE_READCONSOLE_CONTROL), and goes on with the text that stands there.

#include "winemend.h"

#define LINE_SIZE 8192 // of the longest line that cmd.exe reads, in WCHARs

// A completed line and the paths that its end can have.
static struct {
    WCHAR line[LINE_SIZE]; // as the user saw it last
    SIZE_T length;
    SIZE_T start;      // of the path in it
    BOOL directories;  // only these
    BOOL quoted;       // the user began the path with a quote
    WCHAR *paths;      // each ended by 0
    SIZE_T used, room; // of paths, in WCHARs
    SIZE_T count, at;
} done;

static BOOL is_one_of(WCHAR c, const WCHAR *set)
{
    while (*set && *set != c) set++;
    return *set != 0;
}

static BOOL needs_quotes(const WCHAR *path)
{
    for (; *path; path++)
        if (is_one_of(*path, L" &()[]{}^=;!%'+,`~")) return TRUE; // the list of "cmd /?"
    return FALSE;
}

// path_start finds where the last path of a line begins.
static SIZE_T path_start(const WCHAR *line, SIZE_T n)
{
    SIZE_T start = 0;
    BOOL quoted = FALSE;
    for (SIZE_T i = 0; i < n; i++) {
        if (line[i] == '"') quoted = !quoted;
        else if (!quoted && is_one_of(line[i], L" \t/,;=+&|<>()")) start = i + 1;
    }
    return start;
}

// for_directories reports whether a line begins with a command for directories.
static BOOL for_directories(const WCHAR *line, SIZE_T n)
{
    static const WCHAR *const commands[] = {L"cd ", L"md ", L"rd ", L"chdir ", L"mkdir ", L"rmdir ", L"pushd "};
    SIZE_T begin = 0;
    while (begin < n && line[begin] == ' ') begin++;
    for (SIZE_T i = 0; i < ARRAYSIZE(commands); i++) {
        SIZE_T k = 0;
        for (; begin + k < n && commands[i][k]; k++)
            if (RtlUpcaseUnicodeChar(line[begin + k]) != RtlUpcaseUnicodeChar(commands[i][k])) break;
        if (!commands[i][k]) return TRUE;
    }
    return FALSE;
}

// add keeps one path: a directory as it was typed, and a name in it.
static BOOL add(const WCHAR *directory, SIZE_T n, const WCHAR *name)
{
    SIZE_T length = 0;
    while (name[length]) length++;
    if (done.used + n + length + 1 > done.room) {
        SIZE_T room = 2 * done.room + n + length + LINE_SIZE;
        WCHAR *more = alloc_mem(room * sizeof(WCHAR));
        if (!more) return FALSE;
        if (done.paths) memcpy(more, done.paths, done.used * sizeof(WCHAR));
        if (done.paths) free_mem(done.paths);
        done.paths = more;
        done.room = room;
    }
    memcpy(done.paths + done.used, directory, n * sizeof(WCHAR));
    memcpy(done.paths + done.used + n, name, (length + 1) * sizeof(WCHAR));
    done.used += n + length + 1;
    done.count++;
    return TRUE;
}

// list_paths finds the paths that the end of a line can have.
static void list_paths(const WCHAR *line, SIZE_T n)
{
    static HANDLE(WINAPI * first)(const WCHAR *, WIN32_FIND_DATAW *);
    static BOOL(WINAPI * next)(HANDLE, WIN32_FIND_DATAW *);
    static BOOL(WINAPI * end)(HANDLE);
    static WCHAR pattern[LINE_SIZE + 1];
    WIN32_FIND_DATAW found;
    SIZE_T length = 0, name = 0;
    BOOL wild = FALSE;

    done.used = done.count = 0;
    done.start = path_start(line, n);
    done.quoted = done.start < n && line[done.start] == '"';
    for (SIZE_T i = done.start; i < n; i++) {
        if (line[i] == '"') continue;
        pattern[length++] = line[i];
        if (is_one_of(line[i], L"\\/:")) name = length;
    }
    for (SIZE_T i = name; i < length; i++) wild |= is_one_of(pattern[i], L"*?");
    if (!wild) pattern[length++] = '*';
    pattern[length] = 0;

    first = find_function(L"kernelbase.dll", "FindFirstFileW");
    next = find_function(L"kernelbase.dll", "FindNextFileW");
    end = find_function(L"kernelbase.dll", "FindClose");
    if (!first || !next || !end) return;
    HANDLE search = first(pattern, &found);
    if (search == INVALID_HANDLE_VALUE) return;
    do {
        const WCHAR *f = found.cFileName;
        BOOL dots = f[0] == '.' && (!f[1] || (f[1] == '.' && !f[2]));
        if (dots || (done.directories && !(found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY))) continue;
        if (!add(pattern, name, f)) break;
    } while (next(search, &found));
    end(search);
}

// complete completes a line of n characters, and returns its new length: 0 if there
// is nothing, or no room for it.
static SIZE_T complete(WCHAR *line, SIZE_T n, SIZE_T size, BOOL directories, BOOL back)
{
    directories = directories || for_directories(line, n);
    if (!done.count || n != done.length || directories != done.directories ||
        memcmp(line, done.line, n * sizeof(WCHAR))) {
        done.directories = directories;
        list_paths(line, n);
        done.at = back ? 0 : done.count - 1;
    }
    if (!done.count) return 0;
    done.at = (done.at + (back ? done.count - 1 : 1)) % done.count;
    const WCHAR *path = done.paths;
    for (SIZE_T i = 0; i < done.at; path++) i += !*path;

    SIZE_T length = 0, used = done.start;
    while (path[length]) length++;
    if (used + length + 2 >= size) return 0;
    BOOL quotes = done.quoted || needs_quotes(path);
    if (quotes) line[used++] = '"';
    memcpy(line + used, path, length * sizeof(WCHAR));
    used += length;
    if (quotes) line[used++] = '"';
    memcpy(done.line, line, used * sizeof(WCHAR));
    return done.length = used;
}

// cells returns how many cells of the screen a text takes in the console's editor,
// which shows a control character as two.
static int cells(const WCHAR *text, SIZE_T n)
{
    static const struct {
        WCHAR first, last;
    } wide[] = {{0x1100, 0x115f}, {0x2e80, 0xa4cf}, {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0xfe30, 0xfe6f},
                {0xff00, 0xff60}, {0xffe0, 0xffe6}};
    int count = 0;
    for (; n > 0; n--, text++) {
        count += 1 + (*text < ' ');
        for (SIZE_T i = 0; i < ARRAYSIZE(wide); i++) count += *text >= wide[i].first && *text <= wide[i].last;
        if (*text >= 0x300 && *text <= 0x36f) count--; // an accent
    }
    return count;
}

// A console's screen.
struct screen {
    HANDLE handle;
    BOOL(WINAPI *info)(HANDLE, CONSOLE_SCREEN_BUFFER_INFO *);
    BOOL(WINAPI *move)(HANDLE, COORD);
    BOOL(WINAPI *fill)(HANDLE, WCHAR, DWORD, COORD, DWORD *);
    BOOL(WINAPI *write)(HANDLE, const void *, DWORD, DWORD *, void *);
};

static BOOL open_screen(struct screen *s)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    const RTL_USER_PROCESS_PARAMETERS *params = NtCurrentTeb()->ProcessEnvironmentBlock->ProcessParameters;
    s->handle = *(HANDLE *)((char *)params + 0x28); // StandardOutput
    s->info = find_function(L"kernelbase.dll", "GetConsoleScreenBufferInfo");
    s->move = find_function(L"kernelbase.dll", "SetConsoleCursorPosition");
    s->fill = find_function(L"kernelbase.dll", "FillConsoleOutputCharacterW");
    s->write = find_function(L"kernelbase.dll", "WriteConsoleW");
    return s->info && s->move && s->fill && s->write && s->info(s->handle, &info);
}

// show replaces the end of a line, which stands before the cursor.
static void show(const struct screen *s, const WCHAR *was, SIZE_T n, const WCHAR *text, SIZE_T length)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    DWORD count;
    SIZE_T same = 0;
    while (same < n && same < length && was[same] == text[same]) same++;
    if (!s->info(s->handle, &info)) return;
    int old = cells(was + same, n - same), width = info.dwSize.X;
    int at = info.dwCursorPosition.Y * width + info.dwCursorPosition.X - old;
    if (at < 0) at = 0;
    COORD begin = {(SHORT)(at % width), (SHORT)(at / width)};
    s->fill(s->handle, ' ', (DWORD)old, begin, &count);
    s->move(s->handle, begin);
    s->write(s->handle, text + same, (DWORD)(length - same), &count, NULL);
}

// Characters that complete a name, and the name of a directory. 0: none.
struct characters {
    WCHAR file, directory;
};

// read_characters finds the two in the registry, or as /f:on and /f:off set them.
static struct characters read_characters(void)
{
    static const WCHAR key[] = L"Software\\Microsoft\\Command Processor";
    static HKEY const roots[] = {HKEY_LOCAL_MACHINE, HKEY_CURRENT_USER};
    LONG(WINAPI * get)(HKEY, const WCHAR *, const WCHAR *, DWORD, DWORD *, void *, DWORD *);
    get = find_function(L"kernelbase.dll", "RegGetValueW");
    struct characters c = {'\t', '\t'};
    for (SIZE_T i = 0; get && i < ARRAYSIZE(roots); i++) {
        DWORD n, size = sizeof(n);
        if (!get(roots[i], key, L"CompletionChar", RRF_RT_REG_DWORD, NULL, &n, &size)) c.file = (WCHAR)n;
        size = sizeof(n);
        if (!get(roots[i], key, L"PathCompletionChar", RRF_RT_REG_DWORD, NULL, &n, &size)) c.directory = (WCHAR)n;
    }
    const UNICODE_STRING *line = &NtCurrentTeb()->ProcessEnvironmentBlock->ProcessParameters->CommandLine;
    for (const WCHAR *p = line->Buffer, *end = p + line->Length / sizeof(WCHAR); p + 4 < end; p++) {
        WCHAR option = p[1] | 32; // lower case
        if (*p == '/' && (option == 'c' || option == 'k' || option == 'r')) break; // the rest is a command
        if (*p != '/' || option != 'f' || p[2] != ':' || (p[3] | 32) != 'o') continue;
        BOOL on = (p[4] | 32) == 'n';
        c.file = on ? 'F' - '@' : 0;
        c.directory = on ? 'D' - '@' : 0;
    }
    if (c.file >= ' ' || c.file == '\r') c.file = 0; // "cmd /?": such a value disables the completion
    if (c.directory >= ' ' || c.directory == '\r') c.directory = 0;
    return c;
}

BOOL read_completing(read_console read, HANDLE input, WCHAR *buffer, DWORD size, DWORD *count)
{
    static WCHAR was[LINE_SIZE];
    struct screen screen;
    const struct characters c = read_characters();
    CONSOLE_READCONSOLE_CONTROL control = {sizeof(control), 0, 0, 0};
    control.dwCtrlWakeupMask = ((1u << c.file) | (1u << c.directory)) & ~1u;
    if (size > LINE_SIZE || !control.dwCtrlWakeupMask || !open_screen(&screen))
        return read(input, buffer, size, count, NULL);
    done.count = 0; // of the line before
    for (;;) {
        BOOL ok = read(input, buffer, size, count, &control);
        WCHAR key = ok && *count ? buffer[*count - 1] : 0;
        if (!key || key >= ' ' || !(control.dwCtrlWakeupMask & (1u << key))) return ok;
        SIZE_T n = *count - 1;
        memcpy(was, buffer, n * sizeof(WCHAR));
        SIZE_T now = complete(buffer, n, size, key != c.file, control.dwControlKeyState & SHIFT_PRESSED);
        if (now) show(&screen, was, n, buffer, now);
        else screen.write(screen.handle, L"\a", 1, count, NULL);
        control.nInitialChars = (ULONG)(now ? now : n);
    }
}
