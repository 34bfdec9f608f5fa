// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// cmd.exe in the words of Windows, and with its exit codes. Wine's finds its texts
// by LoadString, and those of system errors by FormatMessage (message.c).

#include "winemend.h"

struct text {
    const char *wine, *windows;
    ULONG code; // exit code of a command that prints it; 0: none
};

static const char more[] = "More? ", question[] = " (Yes|No)", unbalanced[] = "Unbalanced parenthesis.\n",
                  unexpected[] = "%1 was unexpected at this time.\n";

#define SYNTAX "The syntax of the command is incorrect.\n"

// Wine's texts: programs/cmd/cmd.rc of Wine 10. Windows' are those of cmd.exe of
// Windows Server 2019; the codes of set /a are those that it leaves in ERRORLEVEL.
static const struct text texts[] = {
    {"Can't recognize '%1' as an internal or external command, or batch script.\n",
     "'%1' is not recognized as an internal or external command,\noperable program or batch file.\n", 1},
    {"Argument missing\n", SYNTAX, 1},
    {"Syntax error\n", SYNTAX, 1},
    {"Parameter error\n", SYNTAX, 1},
    {"Failed to open '%1'\n", "%0", 0}, // Windows prints the system's error only
    {"No help available for %1\n", "This command is not supported by the help utility.  Try \"%1 /?\".\n", 1},
    {"Target to GOTO not found\n", "The system cannot find the batch label specified.\n", 1},
    {"Cannot call batch label outside of a batch script\n",
     "Invalid attempt to call batch label outside of batch script.\n", 1},
    {"File association missing for extension %1\n", "File association not found for extension %1\n", 0},
    {"No open command associated with file type '%1'\n",
     "File type '%1' not found or no open command associated with it.\n", 0},
    {"Environment variable %1 not defined\n", "Environment variable %1 not defined\n", 1},
    {"Division by zero error.\n", "Divide by zero error.\n", 1073750993},
    {"Expected an operand.\n", "Missing operand.\n", 1073750989},
    {"Expected an operator.\n", "Missing operator.\n", 1073750990},
    {"Mismatch in parentheses.\n", unbalanced, 1073750988},
    {"Badly formed number - must be one of decimal (12),\n hexadecimal (0x34) or octal (056).\n",
     "Invalid number.  Numeric constants are either decimal (17),\nhexadecimal (0x11), or octal (021).\n", 1073750991},
    {"File name is too long.\n", "The filename or extension is too long.\n", 1},
    {more, more, 0},
    {question, question, 0},
    {"Syntax error: unexpected %1\n", unexpected, 0},
    {"Echo is %1\n", "ECHO is %1.\n", 0},
    {"Verify is %1\n", "VERIFY is %1.\n", 0},
    {"Verify must be ON or OFF\n", "An incorrect parameter was\nentered for the command.\n", 1},
    {"Current Date is %1\n", "The current date is: %1\n", 0},
    {"Current Time is %1\n", "The current time is: %1\n", 0},
    {"Enter new date: ", "Enter the new date: (mm-dd-yy) ", 0},
    {"Enter new time: ", "Enter the new time: ", 0},
    {"Press any key to continue... ", "Press any key to continue . . . ", 0},
    {"Wine Command Prompt", "Command Prompt", 0},
    {"Microsoft Windows %1!S!\n", "Microsoft Windows [Version %1!S!]\n", 0},
    {"Volume in drive %1!c! is %2\n", " Volume in drive %1!c! is %2\n", 0},
    {"Volume in drive %1!c! has no label.\n", " Volume in drive %1!c! has no label.\n", 0},
    {"Volume Serial Number is %1!04x!-%2!04x!\n\n", " Volume Serial Number is %1!04X!-%2!04X!\n\n", 0},
};

static BOOL is_cmd;
static WCHAR existing[260]; // the name that md could not make

BOOL is_command_prompt(void) { return is_cmd; }

static HMODULE program(void) { return *(HMODULE *)((char *)NtCurrentTeb()->ProcessEnvironmentBlock + 0x10); }

static int(WINAPI *real_LoadStringW)(HMODULE, UINT, WCHAR *, int);

static int WINAPI mend_LoadStringW(HMODULE module, UINT id, WCHAR *buffer, int size)
{
    static BOOL done;
    int n = real_LoadStringW(module, id, buffer, size);
    if (!done) { // the first text is loaded at the start, when all imports are known
        done = TRUE;
        mend_level(program());
        mend_lines(program()); // calls what is there; mend_builtins goes in front
        mend_builtins(program());
        mend_link_commands(program(), print_line, print_error);
        mend_interrupts(program());
    }
    if (n <= 0 || size <= 0 || (module && module != program())) return n;
    for (SIZE_T i = 0; i < ARRAYSIZE(texts); i++) {
        const char *wine = texts[i].wine, *windows = texts[i].windows;
        int k = 0;
        while (k < n && wine[k] && buffer[k] == (WCHAR)wine[k]) k++;
        if (k < n || wine[k]) continue;
        if (texts[i].code) level_failed(texts[i].code);
        if (texts[i].code > 1) level_follows(texts[i].code);
        if (windows == unexpected || windows == unbalanced) parens_forget();
        if (windows == more) lines_prompt();
        if (windows == question) command_asks();
        for (n = 0; windows[n] && n < size - 1; n++) buffer[n] = (unsigned char)windows[n];
        buffer[n] = 0;
        break;
    }
    return n;
}

static BOOL(WINAPI *real_SetCurrentDirectoryW)(const WCHAR *);

// cd and pushd speak of a path, and X: of a drive, whatever is missing.
static BOOL WINAPI mend_SetCurrentDirectoryW(const WCHAR *path)
{
    BOOL ok = real_SetCurrentDirectoryW(path);
    DWORD error = ok ? 0 : RtlGetLastWin32Error();
    BOOL drive = error && path && path[0] && path[1] == ':' && (!path[2] || (path[2] == '\\' && !path[3]));
    if (error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND)
        RtlSetLastWin32Error(drive ? ERROR_INVALID_DRIVE : ERROR_PATH_NOT_FOUND);
    return ok;
}

static BOOL(WINAPI *real_CreateDirectoryW)(const WCHAR *, SECURITY_ATTRIBUTES *);

static BOOL WINAPI mend_CreateDirectoryW(const WCHAR *path, SECURITY_ATTRIBUTES *security)
{
    BOOL ok = real_CreateDirectoryW(path, security);
    existing[0] = 0;
    if (!ok && RtlGetLastWin32Error() == ERROR_ALREADY_EXISTS) {
        SIZE_T n = 0;
        for (; path[n] && n < ARRAYSIZE(existing) - 1; n++) existing[n] = path[n];
        existing[n] = 0;
    }
    return ok;
}

static BOOL(WINAPI *real_RemoveDirectoryW)(const WCHAR *);
static DWORD removal; // why rd failed: its exit code

static BOOL WINAPI mend_RemoveDirectoryW(const WCHAR *path)
{
    BOOL ok = real_RemoveDirectoryW(path);
    removal = ok ? 0 : RtlGetLastWin32Error();
    return ok;
}

// command_message gives the text that cmd.exe has for a system error of its own.
const WCHAR *command_message(ULONG error, WCHAR *buffer, SIZE_T size)
{
    static const char subdirectory[] = "A subdirectory or file ", exists[] = " already exists.",
                      duplicate[] = "A duplicate file name exists, or the file\r\ncannot be found.";
    const char *first = NULL, *last = "";
    const WCHAR *name = L"";
    SIZE_T n = 0;
    if (!is_cmd) return NULL;
    level_failed(error == removal && removal ? removal : 1);
    first = builtin_message(error);
    removal = 0;
    if (!first && error == ERROR_ALREADY_EXISTS) {
        first = existing[0] ? subdirectory : duplicate;
        last = existing[0] ? exists : "";
        name = existing;
    }
    if (!first) return NULL;
    while (*first && n < size - 1) buffer[n++] = (unsigned char)*first++;
    while (*name && n < size - 1) buffer[n++] = *name++;
    while (*last && n < size - 1) buffer[n++] = (unsigned char)*last++;
    buffer[n] = 0;
    existing[0] = 0;
    return buffer;
}

static void CALLBACK loaded(ULONG reason, const struct dll_notification *data, void *context)
{
    (void)context;
    static const UNICODE_STRING user32 = {20, 22, L"user32.dll"};
    if (reason != 1 || real_LoadStringW || !RtlEqualUnicodeString(data->base_name, &user32, TRUE)) return;
    real_LoadStringW = hook_function(user32.Buffer, "LoadStringW", (void *)mend_LoadStringW);
}

static BOOL replace(void)
{
    const WCHAR *base = L"kernelbase.dll";
    real_SetCurrentDirectoryW = hook_function(base, "SetCurrentDirectoryW", (void *)mend_SetCurrentDirectoryW);
    real_CreateDirectoryW = hook_function(base, "CreateDirectoryW", (void *)mend_CreateDirectoryW);
    real_RemoveDirectoryW = hook_function(base, "RemoveDirectoryW", (void *)mend_RemoveDirectoryW);
    return real_SetCurrentDirectoryW && real_CreateDirectoryW && real_RemoveDirectoryW;
}

BOOL mend_command(void)
{
    void *cookie;
    if (!is_image(L"\\cmd.exe")) return TRUE;
    is_cmd = TRUE;
    return !LdrRegisterDllNotification(0, loaded, NULL, &cookie) && replace();
}

void check_command(HMODULE prompt)
{
    replace();
    hook_function(L"user32.dll", "LoadStringW", (void *)mend_LoadStringW);
    mend_level(prompt);
}
