// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// What cmd.exe's own commands print: the lines of dir, the counts of copy and move,
// the full name of a file that is missing. Wine's cmd.exe has these texts in its
// code or prints nothing; what it calls to print and to act is replaced in its own
// table of imports, so no other module is concerned.

#include "winemend.h"

// Formats of programs/cmd/directory.c of Wine 10, and what Windows prints.
static const struct {
    const WCHAR *wine, *windows;
} formats[] = {
    {L"Directory of %1\n\n", L" Directory of %1\n\n"},
    {L"       1 file %1!25s! bytes\n", L"               1 File(s) %1!14s! bytes\n"},
    {L"%1!8d! files %2!24s! bytes\n", L"%1!16d! File(s) %2!14s! bytes\n"},
    {L"%1!8d! directory         ", L"%1!16d! Dir(s) "},
    {L"%1!8d! directories", L"%1!16d! Dir(s) "},
    {L" %1!18s! bytes free\n\n", L"%1!15s! bytes free\n"},
    {L"\n     Total files listed:\n%1!8d! files%2!25s! bytes\n",
     L"\n     Total Files Listed:\n%1!16d! File(s) %2!14s! bytes\n"},
    {L"%1!8d! directories %2!18s! bytes free\n\n", L"%1!16d! Dir(s) %2!15s! bytes free\n"},
};

#define COPIED L"%1!9Iu! file(s) copied.\n"
#define MOVED L"%1!9Iu! file(s) moved.\n"

static DWORD(WINAPI *real_FormatMessageW)(DWORD, const void *, DWORD, DWORD, WCHAR *, DWORD, va_list *);
static HANDLE(WINAPI *real_GetStdHandle)(DWORD);
static HANDLE(WINAPI *real_CreateFileW)(const WCHAR *, DWORD, DWORD, SECURITY_ATTRIBUTES *, DWORD, DWORD, HANDLE);
static BOOL(WINAPI *real_CopyFileW)(const WCHAR *, const WCHAR *, BOOL);
static BOOL(WINAPI *real_MoveFileExW)(const WCHAR *, const WCHAR *, DWORD);
static HANDLE(WINAPI *real_FindFirstFileW)(const WCHAR *, WIN32_FIND_DATAW *);
static int(WINAPI *real_CompareStringW)(LCID, DWORD, const WCHAR *, int, const WCHAR *, int);
static BOOL(WINAPI *real_DeleteFileW)(const WCHAR *);

// Which command runs; cmd.exe looks for its name in a list.
static enum { OTHER, DIRECTORY, COPY, MOVE, RENAME, DELETE_FILES, EXIT, NO_COMMAND } command;

// What copy or move has done so far. Windows prints it when the command ends.
static struct {
    const WCHAR *text; // NULL: nothing to print
    ULONG_PTR count;
} done;

static struct {
    BOOL target;               // of a pair of names, this is the second
    WCHAR printed[MAX_PATH];   // the source whose name was printed last
} joined;

static BOOL onto_itself; // of the copy that failed last
static BOOL several;     // the running command looks for files by a pattern, and names each
static BOOL asking;      // an answer is read next
static WCHAR missing[MAX_PATH]; // what del has not found, and has not said yet

// print_to formats like FormatMessage and writes.
static void print_to(DWORD which, DWORD flags, const void *format, DWORD id, ULONG_PTR argument)
{
    typedef BOOL(WINAPI * writer)(HANDLE, const void *, DWORD, DWORD *, void *);
    const writer console = find_function(L"kernelbase.dll", "WriteConsoleW");
    const writer file = find_function(L"kernelbase.dll", "WriteFile");
    HANDLE output = real_GetStdHandle(which);
    WCHAR line[512];
    char narrow[3 * ARRAYSIZE(line)];
    va_list args = (va_list)&argument;
    DWORD wrote, n = real_FormatMessageW(flags, format, id, 0, line, ARRAYSIZE(line), &args);
    if (!console || !file || console(output, line, n, &wrote, NULL)) return;
    int bytes = to_utf8(line, (int)n, narrow, sizeof(narrow));
    if (bytes > 0) file(output, narrow, (DWORD)bytes, &wrote, NULL);
}

static void print(const WCHAR *format, ULONG_PTR argument)
{
    print_to(STD_OUTPUT_HANDLE, FORMAT_MESSAGE_FROM_STRING, format, 0, argument);
}

static void complain(const WCHAR *format, const WCHAR *argument)
{
    print_to(STD_ERROR_HANDLE, FORMAT_MESSAGE_FROM_STRING, format, 0, (ULONG_PTR)argument);
}

void print_error(void)
{
    print_to(STD_ERROR_HANDLE, FORMAT_MESSAGE_FROM_SYSTEM, NULL, RtlGetLastWin32Error(), 0);
    complain(L"\n", NULL);
}

void print_line(const WCHAR *text) { print(L"%1\n", (ULONG_PTR)text); }

static void complain_syntax(void)
{
    complain(L"The syntax of the command is incorrect.\n", NULL);
    level_failed(1);
    level_follows(1);
}

static int WINAPI mend_CompareStringW(LCID lcid, DWORD flags, const WCHAR *a, int a_len, const WCHAR *b, int b_len)
{
    static const struct {
        const WCHAR *name;
        int command;
    } names[] = {{L"DIR", DIRECTORY}, {L"COPY", COPY}, {L"MOVE", MOVE},          {L"REN", RENAME},
                 {L"RENAME", RENAME}, {L"EXIT", EXIT}, {L"DEL", DELETE_FILES}, {L"ERASE", DELETE_FILES},
                 {L"IF", NO_COMMAND}, {L"FOR", NO_COMMAND}};
    if (same_text(b, L"rem")) parens_command((WCHAR *)a); // the first word that may begin a command in a line
    int result = real_CompareStringW(lcid, flags, a, a_len, b, b_len);
    if (batch_ending()) return interrupt_skips(b) ? CSTR_EQUAL : CSTR_LESS_THAN; // this command is skipped
    if (same_text(b, L"CALL")) { // the first of the list
        parens_forget();
        command = OTHER;
        links_command();
        joined.target = FALSE;
        joined.printed[0] = 0;
    }
    for (SIZE_T i = 0; result == CSTR_EQUAL && i < ARRAYSIZE(names); i++) {
        if (!same_text(b, names[i].name)) continue;
        command = names[i].command;
        if (command == EXIT) level_exits();
        if (command == NO_COMMAND) complain_syntax(); // an if or for without anything
    }
    return result;
}

static void print_done(void)
{
    const WCHAR *text = done.text;
    done.text = NULL;
    print(text, done.count);
}

static void print_missing(void)
{
    DWORD(WINAPI * full)(const WCHAR *, DWORD, WCHAR *, WCHAR **) = find_function(L"kernelbase.dll", "GetFullPathNameW");
    WCHAR path[MAX_PATH];
    if (!missing[0]) return;
    DWORD n = full ? full(missing, ARRAYSIZE(path), path, NULL) : 0;
    complain(L"Could Not Find %1\n", n && n < ARRAYSIZE(path) ? path : missing);
    missing[0] = 0;
}

// Every command begins and ends with the question for its standard input, while its
// output is where the command has it. So does the reading of an answer.
static HANDLE WINAPI mend_GetStdHandle(DWORD which)
{
    if (which == STD_INPUT_HANDLE && !asking) {
        if (done.text) print_done();
        print_missing();
        done.count = 0;
        several = FALSE;
        command = OTHER;
        level_ends();
    }
    if (which == STD_INPUT_HANDLE) asking = FALSE;
    return real_GetStdHandle(which);
}

static void count(const WCHAR *text, BOOL ok)
{
    done.text = text;
    done.count += ok != 0;
}

void command_asks(void)
{
    asking = TRUE;
    if (command == COPY || command == MOVE) count(command == COPY ? COPIED : MOVED, FALSE); // also if the answer is no
}

// print_name prints the name of a file, without the current directory: a guess at
// what was typed.
static void print_name(const WCHAR *path)
{
    const char *params = (char *)NtCurrentTeb()->ProcessEnvironmentBlock->ProcessParameters;
    const UNICODE_STRING *current = (const UNICODE_STRING *)(params + 0x38); // CurrentDirectory.DosPath
    UNICODE_STRING name, begin;
    RtlInitUnicodeString(&name, path);
    begin = name;
    begin.Length = current->Length;
    BOOL below = name.Length > current->Length && RtlEqualUnicodeString(&begin, current, TRUE);
    print(L"%1\n", (ULONG_PTR)(below ? path + current->Length / sizeof(WCHAR) : path));
}

static BOOL WINAPI mend_CopyFileW(const WCHAR *from, const WCHAR *to, BOOL keep)
{
    UNICODE_STRING a, b;
    RtlInitUnicodeString(&a, from);
    RtlInitUnicodeString(&b, to);
    if (several && command == COPY) print_name(from);
    BOOL ok = real_CopyFileW(from, to, keep);
    onto_itself = !ok && RtlEqualUnicodeString(&a, &b, TRUE);
    if (command == COPY) count(COPIED, ok);
    return ok;
}

// copy a+b c, and copy of a device or of text: cmd.exe reads and writes itself. Before
// it adds a file to others it opens it and the target, to see whether they are one.
static HANDLE WINAPI mend_CreateFileW(const WCHAR *path, DWORD access, DWORD share, SECURITY_ATTRIBUTES *security,
                                      DWORD disposition, DWORD flags, HANDLE template)
{
    HANDLE handle = real_CreateFileW(path, access, share, security, disposition, flags, template);
    if (command != COPY) return handle;
    BOOL ok = handle != INVALID_HANDLE_VALUE;
    if (!access) {
        BOOL source = !joined.target;
        joined.target = source && ok;
        if (!source || same_text(path, joined.printed)) return handle;
        SIZE_T n = 0;
        for (; path[n] && n < ARRAYSIZE(joined.printed) - 1; n++) joined.printed[n] = path[n];
        joined.printed[n] = 0;
        print_name(path);
    } else if (access == GENERIC_WRITE && !share && (disposition == CREATE_ALWAYS || !done.count)) {
        count(COPIED, ok);
    }
    return handle;
}

static BOOL WINAPI mend_MoveFileExW(const WCHAR *from, const WCHAR *to, DWORD flags)
{
    DWORD(WINAPI * attributes)(const WCHAR *) = find_function(L"kernelbase.dll", "GetFileAttributesW");
    DWORD was = attributes ? attributes(from) : INVALID_FILE_ATTRIBUTES;
    BOOL directory = was != INVALID_FILE_ATTRIBUTES && was & FILE_ATTRIBUTE_DIRECTORY;
    BOOL ok = real_MoveFileExW(from, to, flags);
    if (!ok) print_error(); // Wine says nothing
    if (several && command == MOVE && ok) print(L"%1\n", (ULONG_PTR)from);
    if (command == MOVE && (ok || was != INVALID_FILE_ATTRIBUTES))
        count(directory ? L"%1!9Iu! dir(s) moved.\n" : MOVED, ok);
    return ok;
}

static BOOL begins(const WCHAR *text, const WCHAR *with)
{
    while (*with && *text == *with) text++, with++;
    return !*with;
}

static const WCHAR *last_part(const WCHAR *path)
{
    const WCHAR *name = path;
    for (const WCHAR *p = path; *p; p++)
        if (*p == '\\') name = p + 1;
    return name;
}

// look_for_deleted keeps what del has not found. With /s it looks for the same name in directories below, and for those
// by "*".
static void look_for_deleted(const WCHAR *path, BOOL found)
{
    BOOL same = missing[0] && same_text(last_part(missing), last_part(path));
    if (same && found) missing[0] = 0;
    if (same || (missing[0] && same_text(last_part(path), L"*"))) return;
    print_missing();
    SIZE_T n = 0;
    for (; !found && path[n] && n < ARRAYSIZE(missing) - 1; n++) missing[n] = path[n];
    missing[n] = 0;
}

// Wine's move, ren and del say nothing of a file that is missing. They get one, and fail to move it, or seem to remove it.
static HANDLE WINAPI mend_FindFirstFileW(const WCHAR *path, WIN32_FIND_DATAW *found)
{
    HANDLE handle = real_FindFirstFileW(path, found);
    BOOL wild = FALSE;
    for (const WCHAR *p = path; *p; p++) wild |= *p == '*' || *p == '?';
    several |= wild;
    if (command == DELETE_FILES && handle == INVALID_HANDLE_VALUE && RtlGetLastWin32Error() == ERROR_PATH_NOT_FOUND) {
        print_error();
        return handle;
    }
    if (command == DELETE_FILES) look_for_deleted(path, handle != INVALID_HANDLE_VALUE);
    if (handle != INVALID_HANDLE_VALUE || (command != MOVE && command != RENAME && command != DELETE_FILES))
        return handle;
    handle = real_FindFirstFileW(L"C:\\Windows", found);
    if (command == DELETE_FILES && !wild) found->dwFileAttributes = FILE_ATTRIBUTE_ARCHIVE;
    if (command == DELETE_FILES && wild) return handle; // of a directory, which del leaves alone
    const WCHAR *name = last_part(path);
    SIZE_T n = 0;
    for (; name[n] && n < ARRAYSIZE(found->cFileName) - 1; n++) found->cFileName[n] = name[n];
    found->cFileName[n] = 0;
    return handle;
}

static BOOL WINAPI mend_DeleteFileW(const WCHAR *path)
{
    if (command == DELETE_FILES && missing[0] && same_text(last_part(missing), last_part(path))) return TRUE;
    return real_DeleteFileW(path);
}

// first_word ends a command line behind the name of its program.
static void first_word(WCHAR *line)
{
    BOOL quoted = FALSE;
    for (; *line && (quoted || (*line != ' ' && *line != '\t')); line++) quoted ^= *line == '"';
    *line = 0;
}

// as_windows returns what Windows prints for a format of Wine's with these arguments,
// and changes the arguments if they differ.
static const WCHAR *as_windows(const WCHAR *format, va_list *args)
{
    static WCHAR text[1024];
    static const WCHAR *changed[1] = {text};
    const WCHAR *const argument = args ? *(WCHAR **)*args : NULL;
    SIZE_T n = 0;
    if (same_text(format, COMMAND_UNKNOWN) || same_text(format, L"Directory of %1\n\n")) {
        for (; argument[n] && n < ARRAYSIZE(text) - 2; n++) text[n] = argument[n];
        if (n && text[n - 1] == ':') text[n++] = '\\'; // C:\ itself
        text[n] = 0;
        if (*format == '\'') first_word(text);
        else links_directory(argument);
        *args = (va_list)changed;
    } else if (same_text(format, COMMAND_UNEXPECTED) && begins(argument, L"End of ")) {
        return L"The syntax of the command is incorrect.\n";
    }
    for (SIZE_T i = 0; i < ARRAYSIZE(formats); i++)
        if (same_text(format, formats[i].wine)) return formats[i].windows;
    return format;
}

// allocate returns a text as FormatMessage does with FORMAT_MESSAGE_ALLOCATE_BUFFER.
static DWORD allocate(const WCHAR *text, WCHAR *to)
{
    const ULONG_PTR argument = (ULONG_PTR)text;
    va_list args = (va_list)&argument;
    return real_FormatMessageW(FORMAT_MESSAGE_FROM_STRING | FORMAT_MESSAGE_ALLOCATE_BUFFER, L"%1", 0, 0, to, 0, &args);
}

static DWORD WINAPI mend_FormatMessageW(DWORD flags, const void *source, DWORD id, DWORD language, WCHAR *to, DWORD size,
                                        va_list *args)
{
    if (command == DIRECTORY && flags == (FORMAT_MESSAGE_FROM_STRING | FORMAT_MESSAGE_ALLOCATE_BUFFER) && args) {
        WCHAR text[512];
        const WCHAR *whole, *name = *(WCHAR **)*args;
        va_list again = *args; // what formats takes the arguments
        DWORD n = real_FormatMessageW(FORMAT_MESSAGE_FROM_STRING, source, 0, 0, text, ARRAYSIZE(text), &again);
        if (n && links_line(source, text, name, &whole)) {
            if (whole) return allocate(whole, to);
            *(WCHAR **)to = NULL;
            RtlSetLastWin32Error(235); // ERROR_NO_WORK_DONE
            return 0;
        }
    }
    if (flags & FORMAT_MESSAGE_FROM_STRING) source = as_windows(source, args);
    if (flags & FORMAT_MESSAGE_FROM_SYSTEM && command == MOVE) return 0; // Wine's error for a file that is to be kept
    return real_FormatMessageW(flags, source, id, language, to, size, args);
}

const char *builtin_message(ULONG error)
{
    if (onto_itself) {
        onto_itself = FALSE;
        return "The file cannot be copied onto itself.";
    }
    if (command == DIRECTORY && error == ERROR_FILE_NOT_FOUND) return "File Not Found";
    return links_message(error);
}

void mend_builtins(HMODULE program)
{
    const struct import functions[] = {
        {"FormatMessageW", (void *)mend_FormatMessageW, &real_FormatMessageW},
        {"GetStdHandle", (void *)mend_GetStdHandle, &real_GetStdHandle},
        {"CreateFileW", (void *)mend_CreateFileW, &real_CreateFileW},
        {"CopyFileW", (void *)mend_CopyFileW, &real_CopyFileW},
        {"MoveFileExW", (void *)mend_MoveFileExW, &real_MoveFileExW},
        {"FindFirstFileW", (void *)mend_FindFirstFileW, &real_FindFirstFileW},
        {"CompareStringW", (void *)mend_CompareStringW, &real_CompareStringW},
        {"DeleteFileW", (void *)mend_DeleteFileW, &real_DeleteFileW},
    };
    replace_imports(program, functions, ARRAYSIZE(functions));
}
