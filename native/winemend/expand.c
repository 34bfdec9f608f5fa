// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// %NAME% in a line that is typed, comes from a pipe, or follows /c. Windows' cmd.exe puts the values in when it reads
// the line; Wine 8's does so before each command, so that B in "A & B" sees what A has set. Here a line has the
// environment of the time when it was read. In batch files Wine does as Windows does.
//
// A variable that does not exist then keeps its place, and "call" looks for it again.

#include "winemend.h"

static DWORD(WINAPI *real_ExpandEnvironmentStringsW)(const WCHAR *, WCHAR *, DWORD);

// The line, and the environment when it was read; NULL if it names no variables.
static struct {
    WCHAR *text, *environment;
    SIZE_T length;
} line;

static RTL_USER_PROCESS_PARAMETERS *parameters(void)
{
    return NtCurrentTeb()->ProcessEnvironmentBlock->ProcessParameters;
}

static WCHAR *copy_of(const WCHAR *text, SIZE_T n)
{
    WCHAR *copy = alloc_mem(n * sizeof(WCHAR));
    if (copy) memcpy(copy, text, n * sizeof(WCHAR));
    return copy;
}

static void forget_line(void)
{
    if (line.text) free_mem(line.text);
    if (line.environment) free_mem(line.environment);
    line.text = line.environment = NULL;
}

static void keep_line(const WCHAR *text, SIZE_T n)
{
    const WCHAR *environment = *(WCHAR **)((char *)parameters() + 0x80); // Environment
    SIZE_T size = 0, percents = 0;
    forget_line();
    for (SIZE_T i = 0; i < n; i++) percents += text[i] == '%';
    if (percents < 2 || !environment) return;
    while (environment[size] || environment[size + 1]) size++;
    line.length = n;
    line.text = copy_of(text, n);
    line.environment = copy_of(environment, size + 2);
    if (!line.text || !line.environment) forget_line();
}

static BOOL same_name(const WCHAR *a, const WCHAR *b, SIZE_T n)
{
    for (SIZE_T i = 0; i < n; i++)
        if (RtlUpcaseUnicodeChar(a[i]) != RtlUpcaseUnicodeChar(b[i])) return FALSE;
    return TRUE;
}

// value_of returns the value that a variable had when the line was read, or NULL.
static const WCHAR *value_of(const WCHAR *name, SIZE_T n)
{
    for (const WCHAR *entry = line.environment; n && *entry;) {
        SIZE_T length = 0, equals = 0;
        while (entry[length]) length++;
        while (equals < length && (entry[equals] != '=' || !equals)) equals++;
        if (equals == n && equals < length && same_name(entry, name, n)) return entry + n + 1;
        entry += length + 1;
    }
    return NULL;
}

// is_delayed reports whether the line has !NAME, too, which stands for the value when the command runs. Wine asks for
// both in the same words.
static BOOL is_delayed(const WCHAR *name, SIZE_T n)
{
    for (SIZE_T i = 0; i + n < line.length; i++)
        if (line.text[i] == '!' && same_name(line.text + i + 1, name, n)) return TRUE;
    return FALSE;
}

static DWORD WINAPI mend_ExpandEnvironmentStringsW(const WCHAR *text, WCHAR *to, DWORD size)
{
    SIZE_T n = 0, length = 0;
    while (text[n]) n++;
    BOOL variable = n > 2 && text[0] == '%' && text[n - 1] == '%';
    if (!variable || !line.environment || batch_running() || is_delayed(text + 1, n - 2))
        return real_ExpandEnvironmentStringsW(text, to, size);
    const WCHAR *value = value_of(text + 1, n - 2);
    if (!value && chain_in_call()) return real_ExpandEnvironmentStringsW(text, to, size);
    if (!value) value = text;
    while (value[length]) length++;
    if (length < size) memcpy(to, value, (length + 1) * sizeof(WCHAR));
    return (DWORD)length + 1;
}

// put_dynamic writes the value of a variable that is in no environment, and returns its length; 0 for other names.
static SIZE_T put_dynamic(const WCHAR *name, SIZE_T n, WCHAR *to, SIZE_T size)
{
    if (n == 2 && same_name(name, L"CD", n)) {
        const UNICODE_STRING *current = (void *)((char *)parameters() + 0x38); // CurrentDirectory.DosPath
        SIZE_T length = current->Length / sizeof(WCHAR);
        if (length > 3 && current->Buffer[length - 1] == '\\') length--;
        if (length > size) return 0;
        memcpy(to, current->Buffer, length * sizeof(WCHAR));
        return length;
    }
    LONG level;
    if (n != 10 || size < 11 || !same_name(name, L"ERRORLEVEL", n) || !chain_level(&level)) return 0;
    SIZE_T sign = level < 0;
    if (sign) *to = '-';
    return sign + put_decimal(to + sign, sign ? 0 - (ULONG)level : (ULONG)level);
}

SIZE_T expand_line(WCHAR *text, SIZE_T n, SIZE_T size)
{
    keep_line(text, n);
    for (SIZE_T i = 0; line.environment && i < n; i++) {
        WCHAR value[MAX_PATH];
        SIZE_T name = i + 1, end = name, colon;
        if (text[i] != '%') continue;
        while (end < n && text[end] != '%') end++;
        for (colon = name; colon < end && text[colon] != ':';) colon++;
        if (end == n) break;
        if (value_of(text + name, colon - name)) {
            i = end; // Wine puts it in
            continue;
        }
        SIZE_T length = put_dynamic(text + name, end - name, value, ARRAYSIZE(value));
        if (!length || n + length >= size) continue;
        memmove(text + i + length, text + end + 1, (n - end - 1) * sizeof(WCHAR));
        memcpy(text + i, value, length * sizeof(WCHAR));
        n = n - (end + 1 - i) + length;
        i += length - 1;
    }
    return n;
}

void mend_expansion(HMODULE program)
{
    const struct import functions[] = {
        {"ExpandEnvironmentStringsW", (void *)mend_ExpandEnvironmentStringsW, &real_ExpandEnvironmentStringsW},
    };
    replace_imports(program, functions, ARRAYSIZE(functions));
}
