// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The end of a program by an exception that it does not handle: as on Windows its exit code is the exception's, and
// Windows prints nothing. Wine prints what happened and starts its debugger, which lets some programs run on, and ends
// others by ways of its own, which lose the exit code:
//
//   - int 29h (__fastfail), in the handler of SIGSEGV (dlls/ntdll/unix/signal_x86_64.c, handle_interrupt);
//   - an exception when the stack has no room for its record (dlls/ntdll/unix/virtual.c, virtual_setup_exception);
//   - an exception that no handler takes, the last filter included (dlls/ntdll/unix/thread.c, NtRaiseException).
//
// So a handler of SIGSEGV stands in front of Wine's, and a thread keeps more room for the handling of a stack overflow.

#include "winemend.h"

NTSYSAPI NTSTATUS NTAPI NtSetInformationProcess(HANDLE, PROCESSINFOCLASS, void *, ULONG);

static BOOL being_debugged(void) { return NtCurrentTeb()->ProcessEnvironmentBlock->BeingDebugged; }

static LONG(WINAPI *real_UnhandledExceptionFilter)(EXCEPTION_POINTERS *);

static LONG WINAPI mend_UnhandledExceptionFilter(EXCEPTION_POINTERS *pointers)
{
    static HANDLE filtering; // the thread whose exception is looked at
    if (being_debugged()) return real_UnhandledExceptionFilter(pointers);
    // The program's own filter has crashed. It would be called again.
    if (filtering == thread_id()) end_process(pointers->ExceptionRecord->ExceptionCode);
    filtering = thread_id();
    // With this mode Wine's filter calls the program's own, and starts no debugger.
    ULONG mode = SEM_NOGPFAULTERRORBOX;
    NtSetInformationProcess(NtCurrentProcess(), ProcessDefaultHardErrorMode_, &mode, sizeof(mode));
    LONG answer = real_UnhandledExceptionFilter(pointers);
    filtering = NULL;
    return answer;
}

static NTSTATUS(NTAPI *real_NtRaiseException)(EXCEPTION_RECORD *, CONTEXT *, BOOLEAN);

static NTSTATUS NTAPI mend_NtRaiseException(EXCEPTION_RECORD *record, CONTEXT *context, BOOLEAN first)
{
    if (!first && !being_debugged()) end_process(record->ExceptionCode);
    return real_NtRaiseException(record, context, first);
}

// silent_output takes the place of Wine's function that writes to standard error, for messages that WINEDEBUG does not
// govern.
static int __cdecl silent_output(const char *text)
{
    int n = 0;
    while (text[n]) n++;
    return n;
}

// is_traced reports whether WINEDEBUG asks for messages. The list of channels lies behind the PEB; the entry without a
// name is the last and holds for all others (dlls/ntdll/unix/debug.c, init_options).
static BOOL is_traced(void)
{
    const char *channels = (char *)NtCurrentTeb()->ProcessEnvironmentBlock + 0x2000;
    return channels[0] || channels[1];
}

static BOOLEAN(WINAPI *real_RtlFreeHeap)(HANDLE, ULONG, void *);

// A block that is none, or was freed before: Wine's function fails, Windows' ends the process.
static BOOLEAN WINAPI mend_RtlFreeHeap(HANDLE heap, ULONG flags, void *block)
{
    if (real_RtlFreeHeap(heap, flags, block)) return TRUE;
    // Wine detaches the DLLs in another order, and a heap may be gone before its blocks.
    if (!being_debugged() && !process_ends()) end_process(STATUS_HEAP_CORRUPTION);
    return FALSE;
}

// Registers in Linux' ucontext, behind uc_flags, uc_link and uc_stack: sys/ucontext.h of x86-64.
enum { GREGS = 5, REG_RCX = GREGS + 14, REG_RSP, REG_RIP, REG_EFL, REG_ERR = GREGS + 19, REG_TRAPNO };

enum {
    TRAP_PROTECTION = 13,
    ERR_INTERRUPT_29 = 0x29 << 3 | 2,
    FLAGS_TF_DF_AC = 0x40500,
};

#define TEB_STACK_BASE 0x08
#define TEB_STACK_LIMIT 0x10
#define TEB_GUARANTEED_STACK_BYTES 0x1748

static ULONG_PTR teb_value(ULONG offset) { return *(ULONG_PTR *)((char *)NtCurrentTeb() + offset); }

// Wine puts the exception's record, the registers and those of AVX on the stack, but not on its last page.
#define LAST_PAGES 0x2400

// stack_error returns the exit code of a program whose stack has no room for an exception. A stack that is not the
// thread's own (a goroutine's) is tried by a system call that reads there, and then fails.
static ULONG stack_error(ULONG_PTR stack)
{
    enum { LINUX_rt_sigprocmask = 14, invalid_how = -1 };
    ULONG_PTR low = teb_value(TEB_DEALLOCATION_STACK);
    if (stack > low && stack <= teb_value(TEB_STACK_BASE)) return stack < low + LAST_PAGES ? STATUS_STACK_OVERFLOW : 0;
    long long result = linux_call(LINUX_rt_sigprocmask, invalid_how, (long long)(stack - sizeof(CONTEXT)), 0, 8, 0);
    return result == -LINUX_EFAULT ? STATUS_ACCESS_VIOLATION : 0;
}

static struct {
    void(__attribute__((sysv_abi)) * handler)(int, void *, long long *);
    unsigned long long flags;
    void *restorer;
    unsigned long long mask;
} wine_action; // struct sigaction of the kernel

static void __attribute__((sysv_abi)) on_fault(int signal, void *info, long long *context)
{
    ULONG code = 0;
    BOOL fail_fast = context[REG_TRAPNO] == TRAP_PROTECTION && context[REG_ERR] == ERR_INTERRUPT_29;
    if (!being_debugged()) code = fail_fast ? STATUS_STACK_BUFFER_OVERRUN : stack_error((ULONG_PTR)context[REG_RSP]);
    if (!code) {
        wine_action.handler(signal, info, context);
        return;
    }
    // The thread goes on there, at the other end of its stack.
    context[REG_RIP] = (long long)end_process;
    context[REG_RSP] = (long long)(teb_value(TEB_STACK_BASE) - 0x108);
    context[REG_RCX] = (long long)code;
    context[REG_EFL] &= ~FLAGS_TF_DF_AC;
}

static BOOL catch_faults(void)
{
    enum { LINUX_rt_sigaction = 13, SIGSEGV_ = 11 };
    if (linux_call(LINUX_rt_sigaction, SIGSEGV_, 0, (long long)&wine_action, 8, 0)) return FALSE;
    typeof(wine_action) ours = wine_action;
    ours.handler = on_fault;
    return !linux_call(LINUX_rt_sigaction, SIGSEGV_, (long long)&ours, 0, 8, 0);
}

// keep_stack: Wine commits the whole stack, with a guard page at its end, so that nothing is left for the handling of
// an overflow. Here the guard page lies before the kept space (dlls/ntdll/unix/virtual.c, grow_thread_stack, then makes
// it usable).
void keep_stack(void)
{
    enum { kept = 0x8000 }; // of 1 MB, the least that Wine gives a thread
    ULONG_PTR low = teb_value(TEB_DEALLOCATION_STACK);
    void *page = (void *)(low + kept);
    SIZE_T size = 0x1000;
    ULONG old;
    if (NtProtectVirtualMemory(NtCurrentProcess(), &page, &size, PAGE_READWRITE | PAGE_GUARD, &old)) return;
    *(ULONG *)((char *)NtCurrentTeb() + TEB_GUARANTEED_STACK_BYTES) = kept;
    *(ULONG_PTR *)((char *)NtCurrentTeb() + TEB_STACK_LIMIT) = low + kept + 0x1000;
}

// Functions of UCRT, once it is loaded.
static struct {
    void (*(*signal)(int, void (*)(int)))(int);
    void (*raise)(int);
    unsigned (*set_abort_behavior)(unsigned, unsigned);
    void (*(*get_purecall_handler)(void))(void);
    void (*exit)(int);
} ucrt;

// abort of UCRT calls __fastfail, unless the program prevents that. Wine's exits with 3, as msvcrt.dll's does.
static void mend_abort(void)
{
    enum { SIGABRT_ = 22, CALL_REPORTFAULT = 2 };
    void (*own)(int) = ucrt.signal(SIGABRT_, NULL);
    if (own) {
        ucrt.signal(SIGABRT_, own);
        ucrt.raise(SIGABRT_);
    }
    if (ucrt.set_abort_behavior(0, 0) & CALL_REPORTFAULT) end_process(STATUS_STACK_BUFFER_OVERRUN);
    ucrt.exit(3);
}

static void mend_purecall(void)
{
    void (*own)(void) = ucrt.get_purecall_handler();
    if (own) own();
    mend_abort();
}

static void CALLBACK loaded(ULONG reason, const struct dll_notification *data, void *context)
{
    (void)context;
    static const UNICODE_STRING name = {24, 26, L"ucrtbase.dll"};
    if (reason != 1 || ucrt.exit || !RtlEqualUnicodeString(data->base_name, &name, TRUE)) return;
    ucrt.signal = find_function(name.Buffer, "signal");
    ucrt.raise = find_function(name.Buffer, "raise");
    ucrt.set_abort_behavior = find_function(name.Buffer, "_set_abort_behavior");
    ucrt.get_purecall_handler = find_function(name.Buffer, "_get_purecall_handler");
    ucrt.exit = find_function(name.Buffer, "_exit");
    replace_function(name.Buffer, "abort", (void *)mend_abort);
    replace_function(name.Buffer, "_purecall", (void *)mend_purecall);
}

// RaiseFailFastException ends the process with the code of the record, by which .NET's Environment.FailFast reports
// COR_E_FAILFAST. Wine's ends it with STATUS_FAIL_FAST_EXCEPTION, which is right without a record:
// https://learn.microsoft.com/windows/win32/api/errhandlingapi/nf-errhandlingapi-raisefailfastexception, read 2026-11.
static void WINAPI mend_RaiseFailFastException(const EXCEPTION_RECORD *record, const CONTEXT *context, DWORD flags)
{
    (void)context;
    (void)flags;
    end_process(record ? (NTSTATUS)record->ExceptionCode : STATUS_FAIL_FAST_EXCEPTION);
}

BOOL mend_crashes(void)
{
    void *cookie;
    keep_stack();
    if (!is_traced()) replace_function(L"ntdll.dll", "__wine_dbg_output", (void *)silent_output);
    real_UnhandledExceptionFilter =
        hook_function(L"kernelbase.dll", "UnhandledExceptionFilter", (void *)mend_UnhandledExceptionFilter);
    replace_function(L"kernelbase.dll", "RaiseFailFastException", (void *)mend_RaiseFailFastException);
    real_NtRaiseException = hook_syscall("NtRaiseException", (void *)mend_NtRaiseException);
    real_RtlFreeHeap = hook_function(L"ntdll.dll", "RtlFreeHeap", (void *)mend_RtlFreeHeap);
    return catch_faults() && !LdrRegisterDllNotification(0, loaded, NULL, &cookie);
}
