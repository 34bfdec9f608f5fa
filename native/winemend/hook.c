// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Replacing functions in memory. Wine's own modules cannot be put aside for
// native ones (ntdll and kernelbase least of all), so their code is changed in
// the process's private copy of the page.

#include "winemend.h"

// A jump to any address: mov rax, imm64; jmp rax. rax carries no argument.
#define JUMP_SIZE 12

static LONG failed; // functions that could not be replaced

LONG failures(void) { return failed; }

void *not_replaced(void)
{
    failed++;
    return NULL;
}

static void write_jump(unsigned char *at, const void *to)
{
    at[0] = 0x48;
    at[1] = 0xb8;
    memcpy(at + 2, &to, sizeof(to));
    at[10] = 0xff;
    at[11] = 0xe0;
}

BOOL overwrite_code(void *at, const void *code, SIZE_T size)
{
    void *page = at;
    SIZE_T len = size;
    ULONG old;
    if (NtProtectVirtualMemory(NtCurrentProcess(), &page, &len, PAGE_EXECUTE_READWRITE, &old)) return FALSE;
    memcpy(at, code, size);
    NtProtectVirtualMemory(NtCurrentProcess(), &page, &len, old, &old);
    return TRUE;
}

void *find_function(const WCHAR *module, const char *name)
{
    UNICODE_STRING us;
    ANSI_STRING as;
    HMODULE handle;
    void *address;
    RtlInitUnicodeString(&us, module);
    RtlInitAnsiString(&as, name);
    if (LdrGetDllHandle(NULL, 0, &us, &handle)) return NULL;
    if (LdrGetProcedureAddress(handle, &as, 0, &address)) return NULL;
    return address;
}

BOOL replace_function(const WCHAR *module, const char *name, void *replacement)
{
    unsigned char jump[JUMP_SIZE];
    void *at = find_function(module, name);
    write_jump(jump, replacement);
    if (at && overwrite_code(at, jump, sizeof(jump))) return TRUE;
    return not_replaced() != NULL;
}

// A system call of Wine 10 begins with these 16 bytes, of which eight are
// the same everywhere (include/wine/asm.h, __ASM_SYSCALL_FUNC):
//
//   4c 8b d1                  mov r10, rcx
//   b8 NN NN NN NN            mov eax, NUMBER
//   f6 04 25 08 03 fe 7f 01   test byte [7ffe0308h], 1
//
// and goes on with a conditional jump. None depends on its place, so the first
// 16 can be run elsewhere, followed by a jump to the seventeenth that leaves the
// flags alone: jmp [rip+0] and the address.
#define STUB_SIZE 16
#define TRAMPOLINE_SIZE 40

static unsigned char *trampolines; // one page for all
static unsigned used;

static unsigned char *new_trampoline(void)
{
    if (!trampolines) {
        void *page = NULL;
        SIZE_T size = 4096;
        if (NtAllocateVirtualMemory(NtCurrentProcess(), &page, 0, &size, MEM_COMMIT | MEM_RESERVE,
                                    PAGE_EXECUTE_READWRITE))
            return NULL;
        trampolines = page;
    }
    if ((used + 1) * TRAMPOLINE_SIZE > 4096) return NULL;
    return trampolines + TRAMPOLINE_SIZE * used++;
}

// put_trampoline makes code that runs the first bytes of at elsewhere and goes
// on behind them, and puts the jump in their place.
static void *put_trampoline(unsigned char *at, unsigned size, void *replacement)
{
    static const unsigned char jump_indirect[] = {0xff, 0x25, 0, 0, 0, 0};
    unsigned char *t = new_trampoline(), jump[JUMP_SIZE];
    if (!t) return NULL;
    memcpy(t, at, size);
    memcpy(t + size, jump_indirect, sizeof(jump_indirect));
    const void *rest = at + size;
    memcpy(t + size + sizeof(jump_indirect), &rest, sizeof(rest));
    write_jump(jump, replacement);
    return overwrite_code(at, jump, sizeof(jump)) ? t : NULL;
}

void *hook_syscall(const char *name, void *replacement)
{
    static const unsigned char head[] = {0x4c, 0x8b, 0xd1, 0xb8};
    static const unsigned char tail[] = {0xf6, 0x04, 0x25, 0x08, 0x03, 0xfe, 0x7f, 0x01};
    unsigned char *at = find_function(L"ntdll.dll", name);
    if (!at || memcmp(at, head, sizeof(head)) || memcmp(at + 8, tail, sizeof(tail))) return not_replaced();
    return put_trampoline(at, STUB_SIZE, replacement);
}

// instruction_size knows the instructions that functions begin with, all of
// which mean the same at another place. 0: another one.
static unsigned instruction_size(const unsigned char *p)
{
    static const unsigned char hot_patch[] = {0x48, 0x8d, 0xa4, 0x24, 0, 0, 0, 0};
    if (!memcmp(p, hot_patch, sizeof(hot_patch))) return 8;         // lea rsp, [rsp+0]
    if (p[0] >= 0x50 && p[0] <= 0x57) return 1;                     // push
    if (p[0] == 0x41 && p[1] >= 0x50 && p[1] <= 0x57) return 2;     // push r8-r15
    if (p[0] == 0x48 && p[1] == 0x83 && p[2] == 0xec) return 4;     // sub rsp, imm8
    if (p[0] == 0x48 && p[1] == 0x81 && p[2] == 0xec) return 7;     // sub rsp, imm32
    if (p[0] == 0x48 && p[1] == 0x83 && p[2] == 0xc4) return 4;     // add rsp, imm8: of a negative number
    if ((p[0] & 0xfb) == 0x48 && p[1] == 0x89 && (p[2] & 0xc0) == 0xc0) return 3; // mov r64, r64
    if ((p[0] & 0xfb) == 0x48 && p[1] == 0x89 && (p[2] & 0xc7) == 0x44 && p[3] == 0x24) return 5; // mov [rsp+8], r64
    if (p[0] == 0x89 && (p[1] & 0xc0) == 0xc0) return 2;            // mov r32, r32
    if ((p[0] & 0xf8) == 0x40 && p[1] == 0x89 && (p[2] & 0xc0) == 0xc0) return 3; // mov r32, r32 (r8-r15)
    return 0;
}

void *hook_function(const WCHAR *module, const char *name, void *replacement)
{
    unsigned char *at = find_function(module, name);
    unsigned size = 0;
    while (at && size < JUMP_SIZE) {
        unsigned n = instruction_size(at + size);
        if (!n) return not_replaced();
        size += n;
    }
    return at ? put_trampoline(at, size, replacement) : not_replaced();
}

// The process heap stands at this place of the PEB on every 64-bit Windows.
static HANDLE heap(void) { return *(HANDLE *)((char *)NtCurrentTeb()->ProcessEnvironmentBlock + 0x30); }

void *alloc_mem(SIZE_T size) { return RtlAllocateHeap(heap(), HEAP_ZERO_MEMORY, size); }

void free_mem(void *p)
{
    if (p) RtlFreeHeap(heap(), 0, p);
}
