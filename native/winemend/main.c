// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

#include "winemend.h"

// A runtime's kernelbase.dll imports this by its ordinal 1, which loads
// this DLL into every process (internal/wine, addImport).
__declspec(dllexport) void winemend(void) {}

BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void *reserved)
{
    (void)module;
    (void)reserved;
    if (reason == DLL_THREAD_ATTACH) keep_stack();
    if (reason == DLL_THREAD_ATTACH || reason == DLL_THREAD_DETACH) commit_thread(reason == DLL_THREAD_ATTACH);
    if (reason != DLL_PROCESS_ATTACH) return TRUE;
    // What does not fit this Wine is left as it is; check.c counts it.
    if (init_paths()) {
        mend_attributes();
        mend_directories();
        mend_links();
        mend_link_creation();
        mend_security();
        mend_programs();
    }
    mend_identity();
    if (identity_known()) hide_linux();
    mend_messages();
    mend_process();
    mend_services();
    mend_console();
    mend_break();
    mend_command();
    mend_system();
    mend_stacks();
    mend_chains();
    mend_streams();
    mend_crashes();
    mend_commits();
    return TRUE;
}
