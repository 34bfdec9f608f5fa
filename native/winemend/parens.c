// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Parentheses in what an if runs, as in "if exist f echo found (again)". Wine's cmd.exe takes each for the begin of a
// block, once it has seen an if (WCMD_ReadAndParseLine in programs/cmd/wcmdmain.c). Here they get a ^ before they are
// parsed.

#include "winemend.h"

#define LINE_SIZE 8192 // of cmd.exe's line (MAXSTRING)

static struct {
    BOOL condition; // there is an if
    BOOL loop;      // between for and do
    SIZE_T open;    // blocks
} seen;

void parens_forget(void)
{
    seen.condition = seen.loop = FALSE;
    seen.open = 0;
}

static BOOL is_keyword(const WCHAR *text, const char *word)
{
    while (*word && (*text | 32) == (WCHAR)*word) text++, word++;
    return !*word && (*text == ' ' || *text == '\t');
}

// escape goes to the end of a command.
static void escape(WCHAR *text)
{
    BOOL quoted = FALSE;
    SIZE_T n = 0;
    while (text[n]) n++;
    for (SIZE_T i = 0; i < n; i++) {
        if (text[i] == '"') quoted = !quoted;
        if (quoted) continue;
        if (text[i] == '^') i++;
        else if (text[i] == '|' || (text[i] == '&' && text[i - 1] != '>')) return;
        else if (text[i] == ')' && seen.open) {
            seen.open--;
            return;
        } else if (text[i] == '(' && n < LINE_SIZE / 2) {
            memmove(text + i + 1, text + i, (n + 1 - i) * sizeof(WCHAR));
            text[i++] = '^';
            n++;
        }
    }
}

void parens_command(WCHAR *text)
{
    if (is_keyword(text, "do")) seen.loop = FALSE;
    else if (is_keyword(text, "for")) seen.loop = TRUE;
    else if (seen.loop) return;
    else if (is_keyword(text, "if")) seen.condition = TRUE;
    else if (is_keyword(text, "else") || is_keyword(text, "rem")) return;
    else if (*text == '(') seen.open++;
    else if (*text == ')' && seen.open) seen.open--;
    else if (*text > ' ') {
        for (const WCHAR *p = L"@:<>&|,=;)"; *p; p++)
            if (*text == *p) return;
        if (*text >= '1' && *text <= '9' && text[1] == '>') return; // a redirection, and then a command
        if (seen.condition) escape(text);
    }
}
