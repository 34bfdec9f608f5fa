// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The text of blocks with redirections, as block.c wants it, of blocks that read from a
// pipe, of what an if runs, and of && and ||, as chain.c wants it. A block begins where
// Wine's parser sees one (programs/cmd/wcmdmain.c of Wine 8, WCMD_ReadAndParseLine).

#include "winemend.h"

#define REDIRECTION_END 0xfdd2 // behind OPEN's redirections
#define PIPE_END 0xfdd3        // behind the part of them that stands for |
#define EDITS 256
#define DEEPEST 64
#define LITERALS 32

// A text that is looked at: bytes of a batch file, or characters.
struct source {
    const char *bytes;
    const WCHAR *wide;
    SIZE_T n;
};

// What to insert at one place, the outermost first.
enum rank { BRANCH, CHAIN, PIPELINE, OTHER };

// What to change, by place.
struct edit {
    LONGLONG at;
    enum rank rank;
    SIZE_T drop, text, length; // text: where what to insert begins
};

static struct {
    struct edit list[EDITS];
    SIZE_T count;
    WCHAR text[2 * BLOCK_LINE];
    SIZE_T used;
    BOOL needed; // a block has redirections or reads from a pipe, or there is a chain
    BOOL full;
    LONGLONG next, end; // in a batch file: the line that comes next, and where its block ends
} edits;

static WCHAR at(const struct source *s, SIZE_T i)
{
    if (i >= s->n) return 0;
    return s->bytes ? (unsigned char)s->bytes[i] : s->wide[i];
}

static BOOL is_blank(WCHAR c) { return c == ' ' || c == '\t'; }

static BOOL is_end(WCHAR c) { return c == '\r' || c == '\n' || !c; }

static SIZE_T skip_blanks(const struct source *s, SIZE_T i)
{
    while (is_blank(at(s, i))) i++;
    return i;
}

static SIZE_T skip_lines(const struct source *s, SIZE_T i)
{
    while (i < s->n && (is_blank(at(s, i)) || is_end(at(s, i)))) i++;
    return i;
}

// is_word reports whether a word, in lower case, stands there by itself.
static BOOL is_word(const struct source *s, SIZE_T i, const char *word)
{
    for (; *word; word++, i++)
        if ((at(s, i) | 32) != (WCHAR)*word && at(s, i) != (WCHAR)*word) return FALSE;
    return is_blank(at(s, i)) || is_end(at(s, i));
}

static SIZE_T skip_quoted(const struct source *s, SIZE_T i)
{
    for (i++; !is_end(at(s, i)) && at(s, i) != '"'; i++) continue;
    return at(s, i) == '"' ? i + 1 : i;
}

// skip_variable goes past %NAME%, whose name can have parentheses.
static SIZE_T skip_variable(const struct source *s, SIZE_T i)
{
    WCHAR c = at(s, i + 1);
    if (c == '%') return i + 2;
    if ((c >= '0' && c <= '9') || c == '*' || c == '~') return i + 2;
    for (SIZE_T k = i + 1; !is_end(at(s, k)); k++) {
        c = at(s, k);
        if (c == '%') return k + 1;
        if (is_blank(c) || c == '&' || c == '|' || c == '<' || c == '>' || c == '"') break;
    }
    return i + 1;
}

// skip_token goes to the blank behind what stands there.
static SIZE_T skip_token(const struct source *s, SIZE_T i)
{
    while (!is_blank(at(s, i)) && !is_end(at(s, i))) i = at(s, i) == '"' ? skip_quoted(s, i) : i + 1;
    return i;
}

// skip_condition goes to the command of an if.
static SIZE_T skip_condition(const struct source *s, SIZE_T i)
{
    i = skip_blanks(s, i);
    while (is_word(s, i, "/i") || is_word(s, i, "not")) i = skip_blanks(s, skip_token(s, i));
    if (is_word(s, i, "errorlevel") || is_word(s, i, "exist") || is_word(s, i, "defined") ||
        is_word(s, i, "cmdextversion"))
        return skip_token(s, skip_blanks(s, skip_token(s, i)));
    while (!is_blank(at(s, i)) && !is_end(at(s, i)) && !(at(s, i) == '=' && at(s, i + 1) == '='))
        i = at(s, i) == '"' ? skip_quoted(s, i) : i + 1;
    i = skip_blanks(s, i);
    i = at(s, i) == '=' ? i + 2 : skip_token(s, i);
    return skip_token(s, skip_blanks(s, i));
}

// skip_for goes to the command of a for.
static SIZE_T skip_for(const struct source *s, SIZE_T i)
{
    SIZE_T begin = i;
    while (!is_word(s, i, "in") && at(s, i) != '(') {
        if (is_end(at(s, i))) return begin;
        i = skip_blanks(s, skip_token(s, i));
    }
    if (at(s, i) != '(') i = skip_lines(s, i + 2);
    if (at(s, i) != '(') return begin;
    while (at(s, i) && at(s, i) != ')') {
        if (at(s, i) == '"') i = skip_quoted(s, i);
        else if (at(s, i) == '%') i = skip_variable(s, i);
        else i += at(s, i) == '^' ? 2 : 1;
    }
    i = skip_lines(s, i + 1);
    return is_word(s, i, "do") ? i + 2 : begin;
}

// goes_behind reports whether an edit goes behind a new one. Others than OTHER are around what has been found in them.
static BOOL goes_behind(const struct edit *e, LONGLONG place, enum rank rank)
{
    return e->at > place || (e->at == place && rank != OTHER && e->rank >= rank);
}

// A place to insert text at is begun, and gets characters.
static struct edit *begin_edit(LONGLONG place, SIZE_T drop, enum rank rank)
{
    edits.full = edits.full || edits.count == EDITS;
    if (edits.full) return NULL;
    SIZE_T i = edits.count++;
    for (; i > 0 && goes_behind(&edits.list[i - 1], place, rank); i--) edits.list[i] = edits.list[i - 1];
    edits.list[i] = (struct edit){place, rank, drop, edits.used, 0};
    return &edits.list[i];
}

static void put(struct edit *e, const WCHAR *text, SIZE_T n)
{
    edits.full = edits.full || !e || edits.used + n > ARRAYSIZE(edits.text);
    if (edits.full) return;
    memcpy(edits.text + edits.used, text, n * sizeof(WCHAR));
    edits.used += n;
    e->length += n;
}

static void put_text(struct edit *e, const WCHAR *text)
{
    SIZE_T n = 0;
    while (text[n]) n++;
    put(e, text, n);
}

static SIZE_T widen(const char *bytes, SIZE_T n, WCHAR *to, SIZE_T size)
{
    int(WINAPI * convert)(UINT, DWORD, const char *, int, WCHAR *, int);
    convert = find_function(L"kernelbase.dll", "MultiByteToWideChar");
    return n && convert ? (SIZE_T)convert(CP_OEMCP, 0, bytes, (int)n, to, (int)size) : 0;
}

static SIZE_T copy_source(const struct source *s, SIZE_T from, SIZE_T to, WCHAR *out, SIZE_T size)
{
    if (s->bytes) return widen(s->bytes + from, to - from, out, size);
    if (to - from > size) return 0;
    memcpy(out, s->wide + from, (to - from) * sizeof(WCHAR));
    return to - from;
}

static void put_source(struct edit *e, const struct source *s, SIZE_T from, SIZE_T to)
{
    WCHAR text[512];
    put(e, text, copy_source(s, from, to, text, ARRAYSIZE(text)));
}

// skip_redirection goes behind "> file", "2>&1" and such. It stays if there is none.
static SIZE_T skip_redirection(const struct source *s, SIZE_T i)
{
    SIZE_T begin = i;
    if (at(s, i) >= '0' && at(s, i) <= '9') i++;
    if (at(s, i) != '>' && at(s, i) != '<') return begin;
    i += at(s, i) == '>' && at(s, i + 1) == '>' ? 2 : 1;
    if (at(s, i) == '&') return i + 2;
    i = skip_blanks(s, i);
    for (;;) {
        WCHAR c = at(s, i);
        if (is_blank(c) || is_end(c) || c == '&' || c == '|' || c == '<' || c == '>' || c == '(' || c == ')') return i;
        if (c == '"') i = skip_quoted(s, i);
        else if (c == '%') i = skip_variable(s, i);
        else i += c == '^' ? 2 : 1;
    }
}

// Temporary files in the place of pipes, as Wine itself has them.
static WCHAR pipes[MAX_PATH];
static SIZE_T pipes_length;

BOOL is_block_pipe(const WCHAR *path)
{
    SIZE_T i = 0;
    while (i < pipes_length && path[i] == pipes[i]) i++;
    return pipes_length && i == pipes_length;
}

static void put_pipe(struct edit *e, ULONG number)
{
    WCHAR digits[10];
    if (!pipes_length) {
        DWORD(WINAPI * directory)(DWORD, WCHAR *) = find_function(L"kernelbase.dll", "GetTempPathW");
        SIZE_T n = directory ? directory(MAX_PATH - 32, pipes) : 0;
        memcpy(pipes + n, L"CMD-", 8);
        n += 4;
        n += put_decimal(pipes + n, (ULONG)(ULONG_PTR)*(HANDLE *)((char *)NtCurrentTeb() + 0x40)); // of the process
        pipes[n++] = '-';
        pipes_length = n;
    }
    put_text(e, L"\"");
    put(e, pipes, pipes_length);
    put(e, digits, put_decimal(digits, number));
    put_text(e, L".tmp\" ");
}

#define OPEN_TEXT L"(rem\xfdd0 "
#define TEST_TEXT L"&if defined \xfdd0 "
#define CLOSE_TEXT L"&rem\xfdd1)"

// A block that has been begun. input: the pipe that it reads from, 0: none.
struct block {
    SIZE_T begin;
    ULONG input;
};

static ULONG last_pipe;

// end_block changes a block if redirections follow its end, i, and returns where to
// go on. A following block that reads from a pipe has *input.
static SIZE_T end_block(const struct source *s, LONGLONG base, const struct block *b, SIZE_T i, ULONG *input)
{
    SIZE_T end = i + 1, next = skip_blanks(s, end);
    ULONG output = 0;
    for (SIZE_T behind; (behind = skip_redirection(s, next)) != next; next = skip_blanks(s, end)) end = behind;
    SIZE_T after = end;
    if (at(s, next) == '|' && at(s, next + 1) != '|') {
        output = ++last_pipe;
        after = next + 1;
    }
    if (after == i + 1 && !b->input) return after;
    edits.needed = TRUE;

    struct edit *e = begin_edit(base + (LONGLONG)b->begin, 0, OTHER);
    put_text(e, OPEN_TEXT);
    if (b->input) {
        put_text(e, L"<");
        put_pipe(e, b->input);
    }
    if (output) {
        put_text(e, L">");
        put_pipe(e, output);
    }
    if (b->input || output) put_text(e, L"\xfdd3 ");
    put_source(e, s, i + 1, end);
    put_text(e, L" \xfdd2" TEST_TEXT);

    e = begin_edit(base + (LONGLONG)i + 1, after - i - 1, OTHER);
    put_text(e, CLOSE_TEXT);
    if (!output) return after;
    put_text(e, L"&");
    if (at(s, skip_blanks(s, after)) == '(') {
        *input = output;
        return after;
    }
    put_text(e, L"<");
    put_pipe(e, output);
    return after;
}

// Commands that && and || join. A || B && C is A || (B && C), and A && B || C is
// (A && B) || C, so that a block of && ends at ||, and all end with the chain:
//
//     (rem & A & if defined TEST (rem & B & rem) & if not defined TEST (rem & C & rem) & rem)
struct chain {
    SIZE_T begin;    // of the first command
    SIZE_T pipeline; // where the last one begins
    SIZE_T branch;   // of the last if: where what it runs begins
    enum { NO_BRANCH, TO_BRANCH, IN_BRANCH } place;
    SIZE_T branches; // that have become blocks
    BOOL open;
    SIZE_T ands, ors;                // blocks that have been begun
    SIZE_T literal[LITERALS], count; // parentheses in the first command's text
};

#define CHAIN_TEXT L"(rem\xfdd4&"
#define AND_TEXT L"&if defined \xfdd5 " CHAIN_TEXT
#define OR_TEXT L"&if not defined \xfdd5 " CHAIN_TEXT
#define END_TEXT L"&rem\xfdd6)"

static void put_ends(LONGLONG place, SIZE_T n)
{
    struct edit *e = n ? begin_edit(place, 0, OTHER) : NULL;
    for (; n > 0; n--) put_text(e, END_TEXT);
}

static void end_chain(struct chain *c, LONGLONG place)
{
    if (c->open) put_ends(place, 1 + c->ands + c->ors);
    c->open = FALSE;
    c->ands = c->ors = c->count = 0;
}

// end_branch ends the chain, too.
static void end_branch(struct chain *c, LONGLONG place)
{
    end_chain(c, place);
    put_ends(place, c->branches);
    c->place = NO_BRANCH;
    c->branches = 0;
}

// block_branch makes a block of what an if runs. Wine 8 skips A & (B), and the next line with it, if the condition is
// false.
static void block_branch(struct chain *c, LONGLONG base)
{
    if (c->place != IN_BRANCH || (c->open && c->branch > c->begin)) return;
    edits.needed = TRUE;
    put_text(begin_edit(base + (LONGLONG)c->branch, 0, BRANCH), CHAIN_TEXT);
    c->place = NO_BRANCH;
    c->branches++;
}

static void begin_command(struct chain *c, SIZE_T i)
{
    c->pipeline = i;
    if (c->place == TO_BRANCH) {
        c->place = IN_BRANCH;
        c->branch = i;
    }
    if (c->open) return;
    c->begin = i;
    c->count = 0;
}

static void open_chain(struct chain *c, LONGLONG base)
{
    edits.needed = TRUE;
    if (c->open) return;
    put_text(begin_edit(base + (LONGLONG)c->begin, 0, CHAIN), CHAIN_TEXT);
    for (SIZE_T k = 0; k < c->count; k++) put_text(begin_edit(base + (LONGLONG)c->literal[k], 0, OTHER), L"^");
    c->open = TRUE;
}

// join_chain is for && and ||, which stand at i.
static void join_chain(struct chain *c, LONGLONG base, SIZE_T i, BOOL and)
{
    open_chain(c, base);
    struct edit *e = begin_edit(base + (LONGLONG)i, 2, OTHER);
    for (; !and && c->ands > 0; c->ands--) put_text(e, END_TEXT);
    put_text(e, and ? AND_TEXT : OR_TEXT);
    and ? c->ands++ : c->ors++;
}

// pipe_to_block is for a | at i that leads to a block. What is in front of it becomes a block, too:
//
//     (rem & (rem OPEN > pipe & if defined OPEN (rem & A & rem) & rem CLOSE) & (rem OPEN < pipe …) & rem)
//
// It returns the pipe.
static ULONG pipe_to_block(struct chain *c, LONGLONG base, SIZE_T i)
{
    open_chain(c, base);
    struct edit *e = begin_edit(base + (LONGLONG)c->pipeline, 0, PIPELINE);
    put_text(e, OPEN_TEXT L">");
    put_pipe(e, ++last_pipe);
    put_text(e, L"\xfdd3 \xfdd2" TEST_TEXT CHAIN_TEXT);
    put_text(begin_edit(base + (LONGLONG)i, 1, OTHER), END_TEXT CLOSE_TEXT L"&");
    return last_pipe;
}

// put_literal keeps a parenthesis that is a part of a text from ending, or beginning,
// a block.
static void put_literal(struct chain *c, LONGLONG base, SIZE_T i, BOOL inside)
{
    if (inside || c->open) put_text(begin_edit(base + (LONGLONG)i, 0, OTHER), L"^");
    else if (c->count < LITERALS) c->literal[c->count++] = i;
}

static BOOL leads_to_block(const struct source *s, SIZE_T i)
{
    i = skip_blanks(s, i);
    return at(s, i) == '(' || (at(s, i) == '@' && at(s, skip_blanks(s, i + 1)) == '(');
}

// begins_block reports whether a block, or a command that can have one, begins there.
static BOOL begins_block(const struct source *s, SIZE_T i)
{
    return leads_to_block(s, i) || is_word(s, skip_blanks(s, i), "if") || is_word(s, skip_blanks(s, i), "for");
}

// find_edits looks at the first line of a text and the blocks that begin there. It
// returns where they end.
static SIZE_T find_edits(const struct source *s, LONGLONG base)
{
    static struct chain chains[DEEPEST + 1];
    struct block open[DEEPEST];
    SIZE_T deep = 0, i = 0;
    ULONG input = 0;
    BOOL command = TRUE; // one begins here
    BOOL begun = FALSE;  // it has, by @
    BOOL piped = FALSE;  // it reads from the one before it
    edits.count = edits.used = 0;
    edits.full = edits.needed = FALSE;
    memset(chains, 0, sizeof(chains));
    while (i < s->n) {
        struct chain *chain = &chains[deep];
        WCHAR c = at(s, i);
        if (is_end(c)) {
            end_branch(chain, base + (LONGLONG)i);
            if (!deep) return i;
            command = TRUE;
            i++;
            continue;
        }
        if (command) {
            // Wine knows "@(" only where a line begins.
            if (c == '@' && i != skip_blanks(s, 0)) {
                if (at(s, skip_blanks(s, i + 1)) == '(') {
                    edits.needed = TRUE;
                    begin_edit(base + (LONGLONG)i, 1, OTHER);
                } else if (!piped) {
                    begin_command(chain, i);
                    begun = TRUE;
                }
            }
            if (is_blank(c) || c == '@' || c == ',' || c == ';' || c == '=') {
                i++;
                continue;
            }
            if (c == ':' || is_word(s, i, "rem")) {
                while (!is_end(at(s, i))) i++;
                continue;
            }
            if (!piped && !begun && c != '&' && c != '|') begin_command(chain, i);
            piped = begun = FALSE;
            if (c == '(') {
                if (deep == DEEPEST) return i;
                open[deep++] = (struct block){i++, input};
                memset(&chains[deep], 0, sizeof(chains[deep]));
                input = 0;
                continue;
            }
            SIZE_T next = is_word(s, i, "if")     ? skip_condition(s, i + 2)
                          : is_word(s, i, "for")  ? skip_for(s, i + 3)
                          : is_word(s, i, "else") ? i + 4
                                                  : i;
            command = next != i;
            if (command && !is_word(s, i, "for")) chain->place = TO_BRANCH;
            i = next;
            if (command) continue;
        }
        if (c == ')' && deep > 0) {
            end_branch(chain, base + (LONGLONG)i);
            i = end_block(s, base, &open[--deep], i, &input);
            if (input) open_chain(&chains[deep], base);
            command = TRUE; // else, or what a pipe leads to
            piped = at(s, i - 1) == '|';
        } else if (c == '(' || c == ')') {
            // Behind an if, Wine would take ( for a block.
            put_literal(chain, base, i++, deep > 0 || chain->branches || chain->place);
        } else if (c == '"') {
            i = skip_quoted(s, i);
        } else if (c == '%') {
            i = skip_variable(s, i);
        } else if (c == '^') {
            i += at(s, i + 1) == '\r' && at(s, i + 2) == '\n' ? 3 : 2;
        } else if (c == '>' && at(s, i + 1) == '&') {
            i += 2;
        } else if ((c == '&' || c == '|') && at(s, i + 1) == c) {
            join_chain(chain, base, i, c == '&');
            command = TRUE;
            i += 2;
        } else {
            if (c == '&' && begins_block(s, i + 1)) block_branch(chain, base);
            if (c == '&') end_chain(chain, base + (LONGLONG)i);
            if (c == '|' && leads_to_block(s, i + 1)) input = pipe_to_block(chain, base, i);
            command = c == '&' || c == '|';
            piped = c == '|';
            i++;
        }
    }
    end_branch(&chains[deep], base + (LONGLONG)i);
    return i;
}

// apply_edits writes the changed text. It returns 0 if there is no room.
static SIZE_T apply_edits(const struct source *s, LONGLONG base, SIZE_T n, WCHAR *out, SIZE_T size)
{
    SIZE_T from = 0, used = 0;
    for (SIZE_T i = 0; i < edits.count; i++) {
        const struct edit *e = &edits.list[i];
        if (e->at < base || e->at > base + (LONGLONG)n) continue;
        SIZE_T to = (SIZE_T)(e->at - base);
        used += copy_source(s, from, to, out + used, size - used);
        if (used + e->length >= size) return 0;
        memcpy(out + used, edits.text + e->text, e->length * sizeof(WCHAR));
        used += e->length;
        from = to + e->drop;
    }
    if (from > n) return 0;
    used += copy_source(s, from, n, out + used, size - used);
    return used < size ? used : 0;
}

// has_any reports whether there may be blocks or several commands.
static BOOL has_any(const struct source *s, SIZE_T n)
{
    for (SIZE_T i = 0; i < n; i++) {
        WCHAR c = at(s, i);
        if (c == '(' || c == '&' || c == '|') return TRUE;
    }
    return FALSE;
}

SIZE_T mend_line(WCHAR *line, SIZE_T n, SIZE_T size)
{
    n = expand_line(line, n, size);
    const struct source s = {NULL, line, n};
    if (!has_any(&s, n)) return n;
    WCHAR *out = alloc_mem(size * sizeof(WCHAR));
    if (!out) return n;
    find_edits(&s, 0);
    SIZE_T length = edits.needed && !edits.full ? apply_edits(&s, 0, n, out, size) : 0;
    if (length) memcpy(line, out, length * sizeof(WCHAR));
    free_mem(out);
    edits.end = 0; // those of a batch file are gone
    return length ? length : n;
}

int mend_batch_line(const char *text, SIZE_T got, LONGLONG base, SIZE_T n, WCHAR *to, int length, int size)
{
    const struct source s = {text, NULL, got};
    SIZE_T next = n;
    while (next < got && next < n + 2 && is_end(at(&s, next))) next++;
    if (base != edits.next || base >= edits.end) {
        edits.needed = FALSE;
        edits.end = base;
        if (has_any(&s, n)) edits.end = base + (LONGLONG)find_edits(&s, base);
    }
    edits.next = base + (LONGLONG)next;
    if (!edits.needed || edits.full) return length;
    WCHAR *out = alloc_mem((SIZE_T)size * sizeof(WCHAR));
    if (!out) return length;
    SIZE_T used = apply_edits(&s, base, n, out, (SIZE_T)size);
    if (used) memcpy(to, out, used * sizeof(WCHAR));
    free_mem(out);
    return used ? (int)used : length;
}

// begins reports whether a text begins with another.
static BOOL begins(const WCHAR *text, SIZE_T n, const WCHAR *with)
{
    for (; *with; text++, with++, n--)
        if (!n || *text != *with) return FALSE;
    return TRUE;
}

#define SIZE_OF(text) (ARRAYSIZE(text) - 1)

// block_shown gives the text as it was before. The redirections of a block that ends
// on another line are kept until then.
WCHAR *block_shown(const WCHAR *text, SIZE_T n)
{
    static WCHAR kept[DEEPEST][128];
    static SIZE_T deep;
    SIZE_T used = 0, i = 0;
    while (i < n && (text[i] < 0xfdd0 || text[i] > 0xfdef)) i++;
    if (i == n) return NULL;
    WCHAR *out = alloc_mem((n + DEEPEST * ARRAYSIZE(kept[0]) + 1) * sizeof(WCHAR));
    for (i = 0; out && i < n;) {
        if (begins(text + i, n - i, OPEN_TEXT)) {
            WCHAR *keep = kept[deep < DEEPEST - 1 ? deep++ : deep];
            SIZE_T length = 0;
            for (i += SIZE_OF(OPEN_TEXT); i < n && text[i] != REDIRECTION_END; i++) {
                if (text[i] == PIPE_END) length = 0, i++;
                else if (length < ARRAYSIZE(kept[0]) - 1) keep[length++] = text[i];
            }
            while (length && is_blank(keep[length - 1])) length--;
            keep[length] = 0;
            i += 1 + SIZE_OF(TEST_TEXT);
        } else if (begins(text + i, n - i, CLOSE_TEXT)) {
            i += SIZE_OF(CLOSE_TEXT);
            for (const WCHAR *p = deep ? kept[--deep] : L""; *p; p++) out[used++] = *p;
            SIZE_T next = i + 1;
            while (next < n && is_blank(text[next])) next++;
            if (begins(text + i, n - i, L"&<\"")) {
                for (i += 3; i < n && text[i] != '"'; i++) continue;
                i += 2;
            } else if (i < n && text[i] == '&' && begins(text + next, n - next, OPEN_TEXT L"<\"")) {
                i++;
            } else {
                continue;
            }
            out[used++] = '|';
        } else if (begins(text + i, n - i, AND_TEXT)) {
            i += SIZE_OF(AND_TEXT);
            out[used++] = '&';
            out[used++] = '&';
        } else if (begins(text + i, n - i, OR_TEXT)) {
            i += SIZE_OF(OR_TEXT);
            out[used++] = '|';
            out[used++] = '|';
        } else if (begins(text + i, n - i, CHAIN_TEXT)) {
            i += SIZE_OF(CHAIN_TEXT);
        } else if (begins(text + i, n - i, END_TEXT)) {
            i += SIZE_OF(END_TEXT);
        } else {
            out[used++] = text[i++];
        }
    }
    return out;
}
