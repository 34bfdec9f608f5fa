// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// ERRORLEVEL and the exit code of cmd.exe. A command that fails must fail: Wine's
// leaves the exit code at 0 in some places, which probes and hooks (cmd /c COMMAND)
// take for success. A command line of several commands ends with ERRORLEVEL.

#include "winemend.h"

static ULONG failed_with; // what Windows' exit code is if Wine's says nothing
static LONG *level;       // ERRORLEVEL; NULL: it was not found
static ULONG next_level;  // its value when the running command has ended; 0: as Wine has it
static BOOL exits;        // the running command is exit

void level_failed(ULONG code) { failed_with = code; }

void level_follows(ULONG code) { next_level = code; }

void level_ends(void)
{
    if (next_level && level) *level = (LONG)next_level;
    next_level = 0;
    exits = FALSE;
}

void level_prompts(void)
{
    if (level && *level == COMMAND_ABORTED) *level = (LONG)STATUS_CONTROL_C_EXIT;
}

static LONG(__cdecl *real_wcstol)(const WCHAR *, WCHAR **, int);

// exit without a number keeps ERRORLEVEL; Wine takes it for 0.
static LONG __cdecl mend_wcstol(const WCHAR *text, WCHAR **end, int base)
{
    return exits && !*text && level ? *level : real_wcstol(text, end, base);
}

void level_exits(void) { exits = TRUE; }

// find_level finds ERRORLEVEL, where Wine puts the exit code of a program into it, 0 if the program still runs (run_full_path
// and WCMD_start in programs/cmd).
static LONG *find_level(unsigned char *base)
{
    static const unsigned char store[] = {
        0x3d, 0x03, 0x01, 0x00, 0x00, // cmp eax, STILL_ACTIVE
        0x0f, 0x44, 0xc2,             // cmove eax, edx
        0x89, 0x05,                   // mov [rip + ERRORLEVEL], eax
    };
    const IMAGE_NT_HEADERS64 *header = (const void *)(base + ((const IMAGE_DOS_HEADER *)base)->e_lfanew);
    const IMAGE_SECTION_HEADER *section = IMAGE_FIRST_SECTION(header);
    unsigned char *found = NULL;
    for (WORD i = 0; i < header->FileHeader.NumberOfSections; i++) {
        if (!(section[i].Characteristics & IMAGE_SCN_MEM_EXECUTE)) continue;
        unsigned char *code = base + section[i].VirtualAddress;
        for (DWORD k = 0; k + sizeof(store) + 4 <= section[i].Misc.VirtualSize; k++) {
            int to;
            if (memcmp(code + k, store, sizeof(store))) continue;
            memcpy(&to, code + k + sizeof(store), sizeof(to));
            unsigned char *at = code + k + sizeof(store) + sizeof(to) + to;
            if (found && found != at) return NULL; // two places that differ: neither is sure
            found = at;
        }
    }
    return (LONG *)found;
}

static WCHAR lower(WCHAR c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }

static BOOL contains(const UNICODE_STRING *s, const char *what)
{
    SIZE_T n = s->Length / sizeof(WCHAR), m = 0;
    while (what[m]) m++;
    for (SIZE_T i = 0; i + m <= n; i++) {
        SIZE_T k = 0;
        while (k < m && lower(s->Buffer[i + k]) == (WCHAR)what[k]) k++;
        if (k == m) return TRUE;
    }
    return FALSE;
}

// one_command: whether the program was started for one command, and no batch file:
// what fails last decides the exit code.
static BOOL one_command(void)
{
    static const char *const several[] = {"&", "|", "(", "exit", ".bat", ".cmd"};
    const UNICODE_STRING *line = &NtCurrentTeb()->ProcessEnvironmentBlock->ProcessParameters->CommandLine;
    if (!contains(line, "/c")) return FALSE;
    for (SIZE_T i = 0; i < ARRAYSIZE(several); i++)
        if (contains(line, several[i])) return FALSE;
    return TRUE;
}

#define NOT_RECOGNIZED 9009 // in ERRORLEVEL; cmd /c itself ends with 1

ULONG level_exit_code(ULONG code)
{
    if (failed_with && (!code || code == NOT_RECOGNIZED) && one_command()) return failed_with;
    return code;
}

void mend_level(HMODULE program)
{
    const struct import number = {"wcstol", (void *)mend_wcstol, &real_wcstol};
    replace_imports(program, &number, 1);
    level = find_level((unsigned char *)program);
    if (!level) not_replaced();
}
