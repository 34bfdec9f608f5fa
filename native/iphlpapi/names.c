// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// The names of adapters. Wine's are Linux'; those that Windows shows stand in the
// registry, where Windows has them (internal/wine, network.go).

#include "iphlpapi.h"

#define NETWORK L"SYSTEM\\CurrentControlSet\\Control\\Network\\{4D36E972-E325-11CE-BFC1-08002BE10318}\\"
#define CONNECTION L"\\Connection"

enum { GUID_LENGTH = 38, INFO_DESCRIPTION = MAX_ADAPTER_DESCRIPTION_LENGTH + 4 };

static const WCHAR loopback_name[] = L"Loopback Pseudo-Interface 1";
static const WCHAR loopback_description[] = L"Software Loopback Interface 1";
static const WCHAR host_description[] = L"Hyper-V Virtual Ethernet Adapter";
static const WCHAR pod_description[] = L"Hyper-V Virtual Ethernet Container Adapter";

static BOOL in_pod(void)
{
    struct answer a;
    DWORD err = ask_service(VERB_ADAPTERS, NULL, &a);
    free_answer(&a);
    return err == NO_SERVICE;
}

const WCHAR *adapter_description(BOOL loopback, BOOL pod)
{
    if (loopback) return loopback_description;
    return pod ? pod_description : host_description;
}

BOOL adapter_name(const WCHAR guid[], BOOL loopback, WCHAR name[NAME_ROOM])
{
    if (loopback) return !!lstrcpynW(name, loopback_name, NAME_ROOM);
    WCHAR key[ARRAYSIZE(NETWORK) + GUID_LENGTH + ARRAYSIZE(CONNECTION)];
    if (lstrlenW(guid) != GUID_LENGTH) return FALSE;
    lstrcpyW(key, NETWORK);
    lstrcatW(key, guid);
    lstrcatW(key, CONNECTION);
    DWORD size = NAME_ROOM * sizeof(WCHAR);
    return !RegGetValueW(HKEY_LOCAL_MACHINE, key, L"Name", RRF_RT_REG_SZ, NULL, name, &size) && name[0];
}

static WCHAR *hex(WCHAR *to, UINT32 value, int digits)
{
    while (digits-- > 0) *to++ = L"0123456789ABCDEF"[value >> 4 * digits & 15];
    return to;
}

// write_guid writes a GUID as the registry's keys have it.
static void write_guid(const GUID *g, WCHAR text[GUID_LENGTH + 1])
{
    *text++ = '{';
    text = hex(text, g->Data1, 8), *text++ = '-';
    text = hex(text, g->Data2, 4), *text++ = '-';
    text = hex(text, g->Data3, 4), *text++ = '-';
    for (int i = 0; i < 8; i++) {
        if (i == 2) *text++ = '-';
        text = hex(text, g->Data4[i], 2);
    }
    *text++ = '}', *text = 0;
}

static void rename_row(MIB_IF_ROW2 *row, BOOL pod)
{
    BOOL loopback = row->Type == IF_TYPE_SOFTWARE_LOOPBACK;
    WCHAR guid[GUID_LENGTH + 1], name[NAME_ROOM];
    write_guid(&row->InterfaceGuid, guid);
    if (!adapter_name(guid, loopback, name)) return; // not an adapter that Windows would show
    lstrcpynW(row->Alias, name, ARRAYSIZE(row->Alias));
    lstrcpynW(row->Description, adapter_description(loopback, pod), ARRAYSIZE(row->Description));
}

static DWORD rename_table(DWORD err, MIB_IF_TABLE2 **table)
{
    if (err) return err;
    BOOL pod = in_pod();
    for (ULONG i = 0; i < (*table)->NumEntries; i++) rename_row(&(*table)->Table[i], pod);
    return err;
}

DWORD WINAPI mend_GetIfTable2(MIB_IF_TABLE2 **table) { return rename_table(real_GetIfTable2(table), table); }

DWORD WINAPI mend_GetIfTable2Ex(MIB_IF_TABLE_LEVEL level, MIB_IF_TABLE2 **table)
{
    return rename_table(real_GetIfTable2Ex(level, table), table);
}

DWORD WINAPI mend_GetIfEntry2(MIB_IF_ROW2 *row)
{
    DWORD err = real_GetIfEntry2(row);
    if (!err) rename_row(row, in_pod());
    return err;
}

DWORD WINAPI mend_GetIfEntry2Ex(MIB_IF_TABLE_LEVEL level, MIB_IF_ROW2 *row)
{
    DWORD err = real_GetIfEntry2Ex(level, row);
    if (!err) rename_row(row, in_pod());
    return err;
}

DWORD WINAPI mend_ConvertInterfaceLuidToAlias(const NET_LUID *luid, WCHAR *name, SIZE_T size)
{
    MIB_IF_ROW2 row;
    if (!luid || !name) return ERROR_INVALID_PARAMETER;
    memset(&row, 0, sizeof(row));
    row.InterfaceLuid = *luid;
    DWORD err = mend_GetIfEntry2(&row);
    if (err) return ERROR_INVALID_PARAMETER;
    if (size <= (SIZE_T)lstrlenW(row.Alias)) return ERROR_NOT_ENOUGH_MEMORY;
    lstrcpyW(name, row.Alias);
    return NO_ERROR;
}

DWORD WINAPI mend_ConvertInterfaceAliasToLuid(const WCHAR *name, NET_LUID *luid)
{
    MIB_IF_TABLE2 *table;
    if (!name || !luid) return ERROR_INVALID_PARAMETER;
    luid->Value = 0;
    DWORD err = mend_GetIfTable2(&table);
    if (err) return err;
    err = ERROR_INVALID_PARAMETER;
    for (ULONG i = 0; i < table->NumEntries && err; i++) {
        if (lstrcmpiW(table->Table[i].Alias, name)) continue;
        *luid = table->Table[i].InterfaceLuid;
        err = NO_ERROR;
    }
    real_FreeMibTable(table);
    return err;
}

// GetAdaptersInfo lists no loopback and has no name but the GUID.
ULONG WINAPI mend_GetAdaptersInfo(IP_ADAPTER_INFO *list, ULONG *size)
{
    ULONG err = real_GetAdaptersInfo(list, size);
    if (err || !list) return err;
    BOOL pod = in_pod();
    for (IP_ADAPTER_INFO *at = list; at; at = at->Next) {
        WCHAR guid[MAX_ADAPTER_NAME_LENGTH + 4], name[NAME_ROOM];
        int i = 0;
        for (; at->AdapterName[i]; i++) guid[i] = (WCHAR)at->AdapterName[i];
        guid[i] = 0;
        if (!adapter_name(guid, FALSE, name)) continue;
        const WCHAR *text = adapter_description(FALSE, pod);
        for (i = 0; text[i] && i < INFO_DESCRIPTION - 1; i++) at->Description[i] = (char)text[i];
        at->Description[i] = 0;
    }
    return err;
}
