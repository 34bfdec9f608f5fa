// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The texts of system errors. Wine words them differently, and scripts, tests
// and people look for Windows' words. FormatMessage finds a text by
// ntdll!RtlFindMessage in the message table of kernelbase.dll; here the table of
// messages.h comes first.

#include "winemend.h"

struct message {
    ULONG code;
    const char *text; // ASCII, without the line's end
};

static const struct message messages[] = {
#include "messages.h"
};

// MESSAGE_RESOURCE_ENTRY and its table (winnt.h), by hand because the last
// member of each is of variable size.
struct entry {
    USHORT length, flags; // flags 1: UTF-16
    char text[1];
};
struct block {
    ULONG low, high, offset;
};
struct table {
    ULONG count;
    struct block blocks[1];
};

typedef struct {
    ULONG_PTR type, name, language;
} RESOURCE_INFO;
NTSYSAPI NTSTATUS NTAPI LdrFindResource_U(HMODULE, const RESOURCE_INFO *, ULONG, void **);
NTSYSAPI NTSTATUS NTAPI LdrAccessResource(HMODULE, void *, void **, ULONG *);

static HMODULE system_module; // where FormatMessage looks for system errors

static const struct message *find(ULONG code)
{
    int low = 0, high = (int)ARRAYSIZE(messages) - 1;
    while (low <= high) {
        int mid = (low + high) / 2;
        if (messages[mid].code == code) return &messages[mid];
        if (messages[mid].code < code) low = mid + 1;
        else high = mid - 1;
    }
    return NULL;
}

// as_entry makes what a message table would hold, once for each code; a
// process asks for few.
static const struct entry *as_entry(const struct message *m)
{
    static struct entry *made[ARRAYSIZE(messages)];
    struct entry **slot = &made[m - messages];
    if (*slot) return *slot;
    SIZE_T n = 0;
    while (m->text[n]) n++;
    SIZE_T bytes = 4 + (n + 3) * sizeof(WCHAR);
    struct entry *e = alloc_mem(bytes);
    if (!e) return NULL;
    e->length = (USHORT)bytes;
    e->flags = 1;
    WCHAR *w = (WCHAR *)e->text;
    for (SIZE_T i = 0; i < n; i++) w[i] = (unsigned char)m->text[i];
    if (!is_command_prompt()) { // Wine's cmd.exe ends the line itself
        w[n] = '\r';
        w[n + 1] = '\n';
    }
    *slot = e; // two threads at once would make it twice: no harm
    return e;
}

// command_entry returns the text that cmd.exe has instead. It prints one at a time.
static const struct entry *command_entry(ULONG code)
{
    static struct {
        struct entry head;
        WCHAR rest[384];
    } e;
    WCHAR *text = (WCHAR *)e.head.text;
    if (!command_message(code, text, ARRAYSIZE(e.rest))) return NULL;
    SIZE_T n = 0;
    while (text[n]) n++;
    e.head.length = (USHORT)(4 + (n + 1) * sizeof(WCHAR));
    e.head.flags = 1;
    return &e.head;
}

static NTSTATUS NTAPI mend_RtlFindMessage(HMODULE module, ULONG type, ULONG language, ULONG id, const struct entry **out)
{
    ULONG primary = language & 0x3ff; // 0 neutral, 9 English; Windows has no other here
    if (module == system_module && (primary == 0 || primary == 9)) {
        const struct message *m = find(id);
        if ((*out = command_entry(id)) != NULL) return STATUS_SUCCESS;
        if (m && (*out = as_entry(m)) != NULL) return STATUS_SUCCESS;
    }
    RESOURCE_INFO info = {type, 1, language};
    void *data, *resource;
    NTSTATUS status = LdrFindResource_U(module, &info, 3, &data);
    if (!status) status = LdrAccessResource(module, data, &resource, NULL);
    if (status) return status;
    const struct table *t = resource;
    for (ULONG i = 0; i < t->count; i++) {
        if (id < t->blocks[i].low || id > t->blocks[i].high) continue;
        const struct entry *e = (const struct entry *)((const char *)t + t->blocks[i].offset);
        for (ULONG k = t->blocks[i].low; k < id; k++) e = (const struct entry *)((const char *)e + e->length);
        *out = e;
        return STATUS_SUCCESS;
    }
    return STATUS_MESSAGE_NOT_FOUND;
}

BOOL mend_messages(void)
{
    UNICODE_STRING name;
    RtlInitUnicodeString(&name, L"kernelbase.dll");
    if (LdrGetDllHandle(NULL, 0, &name, &system_module)) return FALSE;
    return replace_function(L"ntdll.dll", "RtlFindMessage", (void *)mend_RtlFindMessage);
}
