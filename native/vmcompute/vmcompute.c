// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// vmcompute.dll: HNSCall, the REST calls of HNS v1, as a call to the HNS server
// (internal/hns/wire); and of the Host Compute Service the functions that CNI
// plugins of API version 1 load, which find no compute system.
//
// Source of the signatures: github.com/Microsoft/hnslib v0.1.2,
// internal/hns/hns.go, and github.com/Microsoft/hcsshim v0.13.0,
// internal/vmcompute/vmcompute.go.

#include "../hnsclient/hnsclient.h"

#define EXPORT __declspec(dllexport)

// HCS_E_SYSTEM_NOT_FOUND: hcsshim's ErrComputeSystemDoesNotExist.
#define SYSTEM_NOT_FOUND ((HRESULT)0xC037010E)

EXPORT HRESULT WINAPI HNSCall(PCWSTR method, PCWSTR path, PCWSTR request, PWSTR *response)
{
    if (!response) return E_POINTER;
    *response = NULL;
    hns_reply r;
    hns_do(&(hns_request){.verb = HNS_CALL, .args = {method, path, request}}, &r);
    if (r.record) hns_co_free(r.record);
    if (SUCCEEDED(r.hr))
        *response = r.properties;
    else if (r.properties)
        hns_co_free(r.properties);
    return r.hr;
}

// The emulator keeps no compute systems behind this interface: containers are
// made through the container runtime interface (docs/fidelity/hns.md).

EXPORT HRESULT WINAPI HcsEnumerateComputeSystems(PCWSTR query, PWSTR *systems, PWSTR *result)
{
    (void)query;
    if (result) *result = NULL;
    if (!systems) return E_POINTER;
    *systems = NULL;
    InitOnceExecuteOnce(&hns_once, hns_init, NULL, NULL);
    if (!hns_ready || !(*systems = hns_co_alloc(3 * sizeof(WCHAR)))) return E_OUTOFMEMORY;
    (*systems)[0] = '[', (*systems)[1] = ']', (*systems)[2] = 0;
    return S_OK;
}

EXPORT HRESULT WINAPI HcsOpenComputeSystem(PCWSTR id, void **system, PWSTR *result)
{
    (void)id;
    if (result) *result = NULL;
    if (system) *system = NULL;
    return SYSTEM_NOT_FOUND;
}

EXPORT HRESULT WINAPI HcsCloseComputeSystem(void *system)
{
    (void)system;
    return S_OK;
}

EXPORT HRESULT WINAPI HcsGetComputeSystemProperties(void *system, PCWSTR query, PWSTR *properties, PWSTR *result)
{
    (void)system, (void)query;
    if (result) *result = NULL;
    if (properties) *properties = NULL;
    return SYSTEM_NOT_FOUND;
}

EXPORT HRESULT WINAPI HcsModifyComputeSystem(void *system, PCWSTR configuration, PWSTR *result)
{
    (void)system, (void)configuration;
    if (result) *result = NULL;
    return SYSTEM_NOT_FOUND;
}

EXPORT HRESULT WINAPI HcsRegisterComputeSystemCallback(void *system, void *callback, void *context, void **registration)
{
    (void)system, (void)callback, (void)context;
    if (registration) *registration = NULL;
    return SYSTEM_NOT_FOUND;
}

EXPORT HRESULT WINAPI HcsUnregisterComputeSystemCallback(void *registration)
{
    (void)registration;
    return S_OK;
}

BOOL WINAPI DllMain(HINSTANCE self, DWORD reason, void *reserved)
{
    (void)reserved;
    if (reason == DLL_PROCESS_ATTACH) DisableThreadLibraryCalls(self);
    return TRUE;
}
