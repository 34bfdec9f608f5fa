// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// for /l in cmd.exe, which Ctrl+C ends. Wine's goes on to its last number, if there
// is one, whatever becomes of its commands (WCMD_for in programs/cmd/builtins.c).

#include "winemend.h"

// for_goes_on reports whether there is another number.
__attribute__((used)) BOOL for_goes_on(int number, int last, int step)
{
    return !batch_ending() && (step < 0 ? number >= last : number <= last);
}

// next_number calls it from Wine's code, which has the numbers in these registers.
extern void next_number(void);
__asm__("next_number:\n"
        "    movl %ecx, %r8d\n"
        "    movl %ebx, %ecx\n"
        "    movl %ebp, %edx\n"
        "    subq $0x28, %rsp\n"
        "    call for_goes_on\n"
        "    addq $0x28, %rsp\n"
        "    ret\n");

// The condition of the loop in Debian's Wine 8, of which all but the last two
// instructions are replaced.
static const unsigned char condition[] = {
    0x39, 0xeb,       // cmp ebx, ebp
    0x0f, 0x9e, 0xc0, // setle al
    0x85, 0xc9,       // test ecx, ecx
    0x79, 0x05,       // jns over the next two
    0x39, 0xeb,       // cmp ebx, ebp
    0x0f, 0x9d, 0xc0, // setge al
    0x84, 0xc0,       // test al, al
    0x0f, 0x85,       // jnz to the loop's begin
};

void mend_loops(HMODULE program)
{
    unsigned char call[14] = {0x48, 0xb8, [10] = 0xff, 0xd0, 0x90, 0x90}; // mov rax, imm64; call rax; nop; nop
    void (*const target)(void) = next_number;
    memcpy(call + 2, &target, sizeof(target));
    unsigned char *base = (unsigned char *)program;
    const IMAGE_NT_HEADERS64 *header = (const void *)(base + ((const IMAGE_DOS_HEADER *)base)->e_lfanew);
    const IMAGE_SECTION_HEADER *section = IMAGE_FIRST_SECTION(header);
    for (WORD i = 0; i < header->FileHeader.NumberOfSections; i++) {
        if (!(section[i].Characteristics & IMAGE_SCN_MEM_EXECUTE)) continue;
        unsigned char *code = base + section[i].VirtualAddress;
        for (DWORD k = 0; k + sizeof(condition) <= section[i].Misc.VirtualSize; k++) {
            if (memcmp(code + k, condition, sizeof(condition))) continue;
            overwrite_code(code + k, call, sizeof(call));
            return;
        }
    }
}
