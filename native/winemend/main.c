// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

#include "winemend.h"

// The one export: a runtime's kernelbase.dll imports it by ordinal, which loads
// this DLL into every process (internal/wine, addImport).
__declspec(dllexport) void winemend(void) {}

BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void *reserved)
{
    (void)module;
    (void)reserved;
    if (reason == DLL_THREAD_ATTACH) keep_stack();
    if (reason != DLL_PROCESS_ATTACH) return TRUE;
    // One that does not fit to this Wine leaves it as it is; the tests of
    // internal/wine tell which.
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
    return TRUE;
}
