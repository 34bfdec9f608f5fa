// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// A && B and A || B. Wine 8's cmd.exe runs B in any case ("FIXME: Only if previous call worked for && or failed for
// ||", programs/cmd/builtins.c). The text of a line is changed before it is parsed (block_text.c) into blocks with
// "if defined TEST", where TEST is a character that no text has. This file knows whether the last command has failed.
//
// A program has failed if its exit code is not 0, and a command of cmd.exe if it said so or has set ERRORLEVEL to
// another value than 0.

#include "winemend.h"

static BOOL(WINAPI *real_GetExitCodeProcess)(HANDLE, DWORD *);

static LONG(__cdecl *real_wcstol)(const WCHAR *, WCHAR **, int);

static const DWORD *level; // ERRORLEVEL

static struct {
    DWORD before; // ERRORLEVEL when the command began
    DWORD code;
    BOOL ended; // a program, with code
    BOOL calls; // ends with ERRORLEVEL
    BOOL exits; // is exit
    BOOL error; // cmd.exe has said so
} last;

static BOOL WINAPI mend_GetExitCodeProcess(HANDLE process, DWORD *code)
{
    BOOL ok = real_GetExitCodeProcess(process, code);
    last.ended = ok;
    last.code = ok ? *code : 0;
    if (ok) batch_program_ended(*code);
    return ok;
}

// exit without a number keeps ERRORLEVEL; Wine 8 takes it for 0.
static LONG __cdecl mend_wcstol(const WCHAR *text, WCHAR **end, int base)
{
    return last.exits && !*text && level ? (LONG)*level : real_wcstol(text, end, base);
}

// is_own reports whether a command is one that block_text.c has put there.
static BOOL is_own(const WCHAR *text)
{
    static const WCHAR rem[] = L"rem", test[] = L"if defined ", not[] = L"if not defined ";
    const WCHAR *const begins[] = {rem, test, not};
    for (SIZE_T i = 0; i < ARRAYSIZE(begins); i++) {
        SIZE_T n = 0;
        while (begins[i][n] && text[n] == begins[i][n]) n++;
        if (!begins[i][n] && text[n] >= 0xfdd0 && text[n] <= 0xfdef) return TRUE;
    }
    return FALSE;
}

void chain_command(const WCHAR *text)
{
    if (is_own(text)) return;
    last.before = level ? *level : 0;
    last.ended = last.calls = last.exits = last.error = FALSE;
}

void chain_calls(BOOL exits)
{
    last.calls = TRUE;
    last.exits = exits;
}

void chain_error(void) { last.error = TRUE; }

BOOL chain_in_call(void) { return last.calls; }

BOOL chain_level(LONG *to)
{
    if (level) *to = (LONG)*level;
    return level != NULL;
}

BOOL chain_failed(void)
{
    if (last.ended) return last.code != 0;
    if (last.error) return TRUE;
    return level && *level && (last.calls || *level != last.before);
}

// find_level finds ERRORLEVEL, where cmd.exe has the exit codes of programs put:
//     lea rdx, [rip + ERRORLEVEL]
//     call [rip + GetExitCodeProcess]
static const DWORD *find_level(const unsigned char *base)
{
    const IMAGE_NT_HEADERS64 *header = (const void *)(base + ((const IMAGE_DOS_HEADER *)base)->e_lfanew);
    const IMAGE_SECTION_HEADER *section = IMAGE_FIRST_SECTION(header);
    for (WORD i = 0; i < header->FileHeader.NumberOfSections; i++) {
        if (!(section[i].Characteristics & IMAGE_SCN_MEM_EXECUTE)) continue;
        const unsigned char *code = base + section[i].VirtualAddress;
        for (DWORD k = 0; k + 13 <= section[i].Misc.VirtualSize; k++) {
            static const unsigned char lea[] = {0x48, 0x8d, 0x15}, call[] = {0xff, 0x15};
            int to, slot;
            if (memcmp(code + k, lea, sizeof(lea)) || memcmp(code + k + 7, call, sizeof(call))) continue;
            memcpy(&to, code + k + 3, sizeof(to));
            memcpy(&slot, code + k + 9, sizeof(slot));
            const unsigned char *function = code + k + 13 + slot;
            if (function < base || function + sizeof(void *) > base + header->OptionalHeader.SizeOfImage) continue;
            if (*(const ULONG_PTR *)function == (ULONG_PTR)mend_GetExitCodeProcess)
                return (const DWORD *)(code + k + 7 + to);
        }
    }
    return NULL;
}

void mend_chains(HMODULE program)
{
    const struct import functions[] = {
        {"GetExitCodeProcess", (void *)mend_GetExitCodeProcess, &real_GetExitCodeProcess},
        {"wcstol", (void *)mend_wcstol, &real_wcstol},
    };
    replace_imports(program, functions, ARRAYSIZE(functions));
    level = find_level((const unsigned char *)program);
}
