// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// A program that crashes in the way that argv[1] names. "thread WAY" crashes in a second thread, "child WAY" in a child,
// "start PROGRAM" starts another one. library.dll crashes too, if its way is named.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

__declspec(dllimport) int number(void);

static volatile int zero;
static char *volatile nowhere;

static void load_null(void) { zero = *nowhere; }
static void store_null(void) { *nowhere = 1; }
static void store_code(void) { *(volatile char *)(ULONG_PTR)load_null = 1; }
static void call_null(void) { ((void (*)(void))nowhere)(); }
static void load_noncanonical(void) { zero = *(volatile char *)0x8000000000000000; }
static void divide(void) { __asm__ volatile("idivl %0" ::"r"(zero), "a"(1), "d"(0)); }
static void ud2(void) { __asm__ volatile("ud2"); }
static void hlt(void) { __asm__ volatile("hlt"); }
static void int3(void) { __asm__ volatile("int3"); }
static void int2c(void) { __asm__ volatile("int $0x2c"); }
static void single_step(void) { __asm__ volatile("pushfq; orl $0x100, (%rsp); popfq; nop; nop"); }
static void fail_fast(void) { __asm__ volatile("int $0x29" ::"c"(7)); }
// What /GS does when the end of a stack frame was overwritten, here with the stack itself lost.
static void cookie(void) { __asm__ volatile("xor %%esp, %%esp; int $0x29" ::"c"(2)); }
static void lost_stack(void) { __asm__ volatile("mov $16, %rsp; push %rax; ud2"); }

static void float_trap(void)
{
    unsigned mxcsr = 0x1f80 & ~0x200; // without the mask of division by zero
    volatile double d = 1, none = 0;
    __asm__ volatile("ldmxcsr %0" ::"m"(mxcsr));
    d = d / none;
}

static int deeper(int n)
{
    volatile char space[512];
    space[0] = (char)n;
    return n < 0 ? 0 : deeper(n + 1) + space[0];
}
static void recurse(void) { zero = deeper(1); }

static int much_deeper(int n)
{
    volatile char space[60000];
    memset((void *)space, n, sizeof(space));
    return n < 0 ? 0 : much_deeper(n + 1) + space[0];
}
static void recurse_far(void) { zero = much_deeper(1); }

static void in_ucrt(const char *name)
{
    void (*f)(void) = (void (*)(void))(void *)GetProcAddress(LoadLibraryA("ucrtbase.dll"), name);
    if (!f) exit(90);
    f();
}
static void abort_msvcrt(void) { abort(); }
static void abort_ucrt(void) { in_ucrt("abort"); }
static void terminate_ucrt(void) { in_ucrt("terminate"); }
static void purecall_ucrt(void) { in_ucrt("_purecall"); }
static void invalid_parameter_ucrt(void) { in_ucrt("_invalid_parameter_noinfo_noreturn"); }

static void raise_cpp(void) { RaiseException(0xE06D7363, EXCEPTION_NONCONTINUABLE, 0, NULL); }
static void raise_own(void) { RaiseException(0xE0434352, 0, 0, NULL); }
static void raise_small(void) { RaiseException(5, 0, 0, NULL); }
static void raise_fail_fast(void) { RaiseFailFastException(NULL, NULL, 0); }
static void raise_fail_fast_record(void)
{
    EXCEPTION_RECORD record = {.ExceptionCode = 0x80131623}; // COR_E_FAILFAST
    RaiseFailFastException(&record, NULL, 0);
}
static void terminate_self(void) { TerminateProcess(GetCurrentProcess(), 0xC0000005); }

static void free_twice(void)
{
    char *volatile p = malloc(100);
    free(p);
    free(p);
}
static void free_inside(void)
{
    char *volatile p = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, 1000);
    HeapFree(GetProcessHeap(), 0, p + 64);
}
static void overrun(void)
{
    char *volatile p[64];
    for (int i = 0; i < 64; i++) p[i] = HeapAlloc(GetProcessHeap(), 0, 24);
    for (int i = 0; i < 64; i++) memset(p[i], 'x', 64);
    for (int i = 0; i < 64; i++) HeapFree(GetProcessHeap(), 0, p[i]);
}

static void touch(DWORD protection)
{
    char *volatile p = VirtualAlloc(NULL, 4096, MEM_COMMIT | MEM_RESERVE, protection);
    *p = 1;
}
static void guard_page(void) { touch(PAGE_READWRITE | PAGE_GUARD); }
static void no_access(void) { touch(PAGE_NOACCESS); }
static void no_execute(void)
{
    char *volatile p = VirtualAlloc(NULL, 4096, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE);
    *p = (char)0xc3; // ret
    ((void (*)(void))p)();
}

static LONG WINAPI says(EXCEPTION_POINTERS *p)
{
    printf("filter %08lx\n", p->ExceptionRecord->ExceptionCode);
    fflush(stdout);
    return EXCEPTION_EXECUTE_HANDLER;
}
static LONG WINAPI exits(EXCEPTION_POINTERS *p)
{
    (void)p;
    ExitProcess(42);
}
static LONG WINAPI crashes(EXCEPTION_POINTERS *p)
{
    (void)p;
    load_null();
    return EXCEPTION_EXECUTE_HANDLER;
}
static LONG WINAPI passes(EXCEPTION_POINTERS *p)
{
    says(p);
    return EXCEPTION_CONTINUE_SEARCH;
}
static void filter_says(void)
{
    SetUnhandledExceptionFilter(says);
    load_null();
}
static void filter_exits(void)
{
    SetUnhandledExceptionFilter(exits);
    recurse();
}
static void filter_crashes(void)
{
    SetUnhandledExceptionFilter(crashes);
    ud2();
}
static void filter_vectored(void)
{
    AddVectoredExceptionHandler(1, passes);
    load_null();
}
static void error_mode(void)
{
    SetErrorMode(SEM_FAILCRITICALERRORS);
    load_null();
}
static void at_exit(void)
{
    atexit(load_null);
    exit(7);
}
static void call_library(void) { exit(number()); }

static const struct {
    const char *name;
    void (*crash)(void);
} ways[] = {
    {"load-null", load_null}, {"store-null", store_null}, {"store-code", store_code}, {"call-null", call_null},
    {"load-noncanonical", load_noncanonical}, {"divide", divide}, {"ud2", ud2},
    {"hlt", hlt}, {"int3", int3}, {"int2c", int2c}, {"single-step", single_step}, {"fail-fast", fail_fast},
    {"cookie", cookie}, {"lost-stack", lost_stack}, {"float-trap", float_trap}, {"recurse", recurse},
    {"recurse-far", recurse_far}, {"abort-msvcrt", abort_msvcrt}, {"abort-ucrt", abort_ucrt},
    {"terminate-ucrt", terminate_ucrt}, {"purecall-ucrt", purecall_ucrt},
    {"invalid-parameter-ucrt", invalid_parameter_ucrt}, {"raise-cpp", raise_cpp}, {"raise-own", raise_own},
    {"raise-small", raise_small}, {"raise-fail-fast", raise_fail_fast},
    {"raise-fail-fast-record", raise_fail_fast_record}, {"terminate-self", terminate_self},
    {"free-twice", free_twice}, {"free-inside", free_inside}, {"overrun", overrun}, {"guard-page", guard_page},
    {"no-access", no_access}, {"no-execute", no_execute}, {"filter-says", filter_says}, {"filter-exits", filter_exits},
    {"filter-crashes", filter_crashes}, {"filter-vectored", filter_vectored}, {"error-mode", error_mode},
    {"at-exit", at_exit}, {"call-library", call_library},
};

static DWORD WINAPI crash(void *name)
{
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        if (!strcmp(name, ways[i].name)) {
            ways[i].crash();
            exit(91); // it went on
        }
    return 92;
}

// start starts a program, and returns its exit code, or why there is none.
static DWORD start(char *line)
{
    STARTUPINFOA info = {.cb = sizeof(info)};
    PROCESS_INFORMATION p;
    DWORD code;
    if (!CreateProcessA(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &info, &p)) return GetLastError();
    WaitForSingleObject(p.hProcess, INFINITE);
    GetExitCodeProcess(p.hProcess, &code);
    printf("child %08lx\n", code);
    return code;
}

int main(int argc, char **argv)
{
    char line[300];
    if (argc == 2) return (int)crash(argv[1]);
    if (argc < 2) return 93;
    if (!strcmp(argv[1], "thread")) {
        WaitForSingleObject(CreateThread(NULL, 0, crash, argv[2], 0, NULL), INFINITE);
        return 94;
    }
    if (!strcmp(argv[1], "start")) return (int)start(argv[2]);
    snprintf(line, sizeof(line), "%s %s", argv[0], argv[2]);
    return (int)start(line);
}
