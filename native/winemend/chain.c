// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// CertCreateCertificateChainEngine takes a structure that has grown twice. Wine refuses it with the last field,
// dwExclusiveFlags of Windows 8, with which programs in Rust check certificates (rustls-platform-verifier):
// https://learn.microsoft.com/windows/win32/api/wincrypt/ns-wincrypt-cert_chain_engine_config, read 2026-11.
// The field says which certificates of an exclusive store may be trusted; Wine trusts all.

#include "winemend.h"

// The structure's size without the field, and with it.
#define OLD_SIZE 80
#define NEW_SIZE 88

static BOOL(WINAPI *real_CertCreateCertificateChainEngine)(void *config, void **engine);

static BOOL WINAPI mend_CertCreateCertificateChainEngine(void *config, void **engine)
{
    union {
        DWORD size;
        BYTE all[OLD_SIZE];
    } old;
    if (*(DWORD *)config != NEW_SIZE) return real_CertCreateCertificateChainEngine(config, engine);
    memcpy(&old, config, OLD_SIZE);
    old.size = OLD_SIZE;
    return real_CertCreateCertificateChainEngine(&old, engine);
}

// loaded sees each DLL before its DllMain runs.
static void CALLBACK loaded(ULONG reason, const struct dll_notification *data, void *context)
{
    (void)context;
    static const UNICODE_STRING crypt32 = {22, 24, L"crypt32.dll"};
    if (reason != 1 || real_CertCreateCertificateChainEngine || !RtlEqualUnicodeString(data->base_name, &crypt32, TRUE))
        return;
    real_CertCreateCertificateChainEngine = hook_function(crypt32.Buffer, "CertCreateCertificateChainEngine",
                                                          (void *)mend_CertCreateCertificateChainEngine);
}

void mend_chains(void)
{
    void *cookie;
    LdrRegisterDllNotification(0, loaded, NULL, &cookie);
}
