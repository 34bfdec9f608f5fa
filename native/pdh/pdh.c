// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// pdh.dll, the performance counters that node agents open by name. Wine's own
// knows two counters; the kubelet opens eleven at its start and does not run
// without them (k8s.io/kubernetes/pkg/kubelet/winstats).
//
// Wine takes the values from files that show an emulated host's own size and load
// (docs/internals/winhost.md, Size).

#include <winsock2.h>
#include <ws2ipdef.h>
#include <iphlpapi.h>
#include <netioapi.h>
#include <windows.h>
#include <psapi.h>
#include <pdh.h>
#include <pdhmsg.h>

enum source {
    CPU_TIME,       // \Processor(_Total)\% Processor Time
    WORKING_SET,    // \Process(_Total)\Working Set - Private
    COMMITTED,      // \Memory\Committed Bytes
    AVAILABLE,      // \Memory\Available Bytes
    ADAPTER_OFFSET, // from here on: one value for each network adapter
    IN_PACKETS = ADAPTER_OFFSET,
    OUT_PACKETS,
    IN_BYTES,
    OUT_BYTES,
    IN_DISCARDS,
    IN_ERRORS,
    OUT_DISCARDS,
    OUT_ERRORS,
};

static const struct known {
    const WCHAR *path;
    enum source source;
    BOOL rate; // the difference between two collections, each second
} known[] = {
    {L"\\Processor(_Total)\\% Processor Time", CPU_TIME, FALSE},
    {L"\\Processor Information(_Total)\\% Processor Time", CPU_TIME, FALSE},
    {L"\\Process(_Total)\\Working Set - Private", WORKING_SET, FALSE},
    {L"\\Process(_Total)\\Working Set", WORKING_SET, FALSE},
    {L"\\Memory\\Committed Bytes", COMMITTED, FALSE},
    {L"\\Memory\\Available Bytes", AVAILABLE, FALSE},
    {L"\\Network Adapter(*)\\Packets Received/sec", IN_PACKETS, TRUE},
    {L"\\Network Adapter(*)\\Packets Sent/sec", OUT_PACKETS, TRUE},
    {L"\\Network Adapter(*)\\Bytes Received/sec", IN_BYTES, TRUE},
    {L"\\Network Adapter(*)\\Bytes Sent/sec", OUT_BYTES, TRUE},
    {L"\\Network Adapter(*)\\Packets Received Discarded", IN_DISCARDS, FALSE},
    {L"\\Network Adapter(*)\\Packets Received Errors", IN_ERRORS, FALSE},
    {L"\\Network Adapter(*)\\Packets Outbound Discarded", OUT_DISCARDS, FALSE},
    {L"\\Network Adapter(*)\\Packets Outbound Errors", OUT_ERRORS, FALSE},
};

// MAX_ADAPTERS: an emulated host has an uplink, a bridge and one adapter for
// each pod; 512 is twice the most pods that a kubelet can be set to.
#define MAX_ADAPTERS 512
#define NAME_LEN 64

struct item {
    WCHAR name[NAME_LEN];
    ULONG64 raw;
    double value;
};

struct counter {
    DWORD magic;
    struct counter *next;
    const struct known *what;
    ULONGLONG last_tick;    // 0: nothing collected yet
    ULONG64 busy, total;    // CPU_TIME only
    DWORD count;
    struct item *items;
};

struct query {
    DWORD magic;
    struct counter *first;
};

#define QUERY_MAGIC 0x79726551   // "Qery"
#define COUNTER_MAGIC 0x72746e43 // "Cntr"

static CRITICAL_SECTION lock;

static struct query *to_query(PDH_HQUERY handle)
{
    struct query *q = (struct query *)handle;
    return q && q->magic == QUERY_MAGIC ? q : NULL;
}

static struct counter *to_counter(PDH_HCOUNTER handle)
{
    struct counter *c = (struct counter *)handle;
    return c && c->magic == COUNTER_MAGIC ? c : NULL;
}

static const struct known *find(const WCHAR *path)
{
    // "\\machine\object" names a counter of a machine; ours is the only one.
    if (path[0] == '\\' && path[1] == '\\') {
        path += 2;
        while (*path && *path != '\\') path++;
    }
    for (size_t i = 0; i < ARRAYSIZE(known); i++)
        if (!lstrcmpiW(path, known[i].path)) return &known[i];
    return NULL;
}

static void collect_cpu(struct counter *c)
{
    FILETIME idle_ft, kernel_ft, user_ft;
    if (!GetSystemTimes(&idle_ft, &kernel_ft, &user_ft)) return;
#define U64(ft) (((ULONG64)(ft).dwHighDateTime << 32) | (ft).dwLowDateTime)
    ULONG64 idle = U64(idle_ft), total = U64(kernel_ft) + U64(user_ft); // kernel time includes idle time
#undef U64
    ULONG64 busy = total > idle ? total - idle : 0;
    if (c->last_tick && total > c->total && busy >= c->busy)
        c->items[0].value = 100.0 * (double)(busy - c->busy) / (double)(total - c->total);
    c->busy = busy;
    c->total = total;
}

static void collect_memory(struct counter *c)
{
    PERFORMANCE_INFORMATION info = {.cb = sizeof(info)};
    if (!GetPerformanceInfo(&info, sizeof(info))) return;
    ULONG64 pages = 0;
    switch (c->what->source) {
    case WORKING_SET: pages = info.PhysicalTotal - info.PhysicalAvailable; break;
    case COMMITTED: pages = info.CommitTotal; break;
    default: pages = info.PhysicalAvailable; break;
    }
    c->items[0].value = (double)(pages * info.PageSize);
}

static ULONG64 adapter_value(const MIB_IF_ROW2 *row, enum source source)
{
    switch (source) {
    case IN_PACKETS: return row->InUcastPkts + row->InNUcastPkts;
    case OUT_PACKETS: return row->OutUcastPkts + row->OutNUcastPkts;
    case IN_BYTES: return row->InOctets;
    case OUT_BYTES: return row->OutOctets;
    case IN_DISCARDS: return row->InDiscards;
    case IN_ERRORS: return row->InErrors;
    case OUT_DISCARDS: return row->OutDiscards;
    default: return row->OutErrors;
    }
}

static void collect_adapters(struct counter *c, ULONGLONG now)
{
    MIB_IF_TABLE2 *table;
    if (GetIfTable2(&table)) return;
    struct item *items = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, MAX_ADAPTERS * sizeof(*items));
    DWORD count = 0;
    for (ULONG i = 0; items && i < table->NumEntries && count < MAX_ADAPTERS; i++) {
        const MIB_IF_ROW2 *row = &table->Table[i];
        if (row->Type == IF_TYPE_SOFTWARE_LOOPBACK) continue; // Windows has no counter for it either
        struct item *it = &items[count++];
        lstrcpynW(it->name, row->Description[0] ? row->Description : row->Alias, NAME_LEN);
        it->raw = adapter_value(row, c->what->source);
        it->value = c->what->rate ? 0 : (double)it->raw;
        for (DWORD k = 0; c->what->rate && k < c->count; k++) {
            const struct item *old = &c->items[k];
            if (!lstrcmpW(old->name, it->name) && it->raw >= old->raw && now > c->last_tick)
                it->value = (double)(it->raw - old->raw) * 1000.0 / (double)(now - c->last_tick);
        }
    }
    FreeMibTable(table);
    if (!items) return;
    HeapFree(GetProcessHeap(), 0, c->items);
    c->items = items;
    c->count = count;
}

static void collect(struct counter *c)
{
    ULONGLONG now = GetTickCount64();
    // Two collections in one tick would divide by zero; the older value holds.
    if (c->last_tick == now) return;
    if (c->what->source == CPU_TIME) collect_cpu(c);
    else if (c->what->source < ADAPTER_OFFSET) collect_memory(c);
    else collect_adapters(c, now);
    c->last_tick = now;
}

PDH_STATUS WINAPI mend_PdhOpenQueryW(LPCWSTR source, DWORD_PTR user, PDH_HQUERY *out)
{
    (void)user;
    if (source) return PDH_NOT_IMPLEMENTED; // log files
    if (!out) return PDH_INVALID_ARGUMENT;
    struct query *q = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof(*q));
    if (!q) return PDH_MEMORY_ALLOCATION_FAILURE;
    q->magic = QUERY_MAGIC;
    *out = (PDH_HQUERY)q;
    return ERROR_SUCCESS;
}

PDH_STATUS WINAPI mend_PdhOpenQuery(LPCWSTR source, DWORD_PTR user, PDH_HQUERY *out)
{
    return mend_PdhOpenQueryW(source, user, out);
}

PDH_STATUS WINAPI mend_PdhOpenQueryA(LPCSTR source, DWORD_PTR user, PDH_HQUERY *out)
{
    if (source) return PDH_NOT_IMPLEMENTED;
    return mend_PdhOpenQueryW(NULL, user, out);
}

PDH_STATUS WINAPI mend_PdhAddCounterW(PDH_HQUERY query, LPCWSTR path, DWORD_PTR user, PDH_HCOUNTER *out)
{
    (void)user;
    struct query *q = to_query(query);
    if (!q) return PDH_INVALID_HANDLE;
    if (!path || !out) return PDH_INVALID_ARGUMENT;
    const struct known *what = find(path);
    if (!what) return PDH_CSTATUS_NO_COUNTER;
    struct counter *c = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof(*c));
    if (!c) return PDH_MEMORY_ALLOCATION_FAILURE;
    c->magic = COUNTER_MAGIC;
    c->what = what;
    c->items = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof(*c->items));
    if (!c->items) {
        HeapFree(GetProcessHeap(), 0, c);
        return PDH_MEMORY_ALLOCATION_FAILURE;
    }
    if (what->source < ADAPTER_OFFSET) {
        c->count = 1;
        lstrcpynW(c->items[0].name, L"_Total", NAME_LEN);
    }
    EnterCriticalSection(&lock);
    c->next = q->first;
    q->first = c;
    LeaveCriticalSection(&lock);
    *out = (PDH_HCOUNTER)c;
    return ERROR_SUCCESS;
}

PDH_STATUS WINAPI mend_PdhAddEnglishCounterW(PDH_HQUERY query, LPCWSTR path, DWORD_PTR user, PDH_HCOUNTER *out)
{
    return mend_PdhAddCounterW(query, path, user, out);
}

static PDH_STATUS add_ansi(PDH_HQUERY query, LPCSTR path, DWORD_PTR user, PDH_HCOUNTER *out)
{
    WCHAR wide[PDH_MAX_COUNTER_PATH];
    if (!path || !MultiByteToWideChar(CP_ACP, 0, path, -1, wide, ARRAYSIZE(wide))) return PDH_INVALID_ARGUMENT;
    return mend_PdhAddCounterW(query, wide, user, out);
}

PDH_STATUS WINAPI mend_PdhAddCounterA(PDH_HQUERY query, LPCSTR path, DWORD_PTR user, PDH_HCOUNTER *out)
{
    return add_ansi(query, path, user, out);
}

PDH_STATUS WINAPI mend_PdhAddEnglishCounterA(PDH_HQUERY query, LPCSTR path, DWORD_PTR user, PDH_HCOUNTER *out)
{
    return add_ansi(query, path, user, out);
}

PDH_STATUS WINAPI mend_PdhCollectQueryData(PDH_HQUERY query)
{
    struct query *q = to_query(query);
    if (!q) return PDH_INVALID_HANDLE;
    if (!q->first) return PDH_NO_DATA;
    EnterCriticalSection(&lock);
    for (struct counter *c = q->first; c; c = c->next) collect(c);
    LeaveCriticalSection(&lock);
    return ERROR_SUCCESS;
}

PDH_STATUS WINAPI mend_PdhRemoveCounter(PDH_HCOUNTER counter)
{
    // The counter goes with its query; a caller that removes one closes it next.
    return to_counter(counter) ? ERROR_SUCCESS : PDH_INVALID_HANDLE;
}

PDH_STATUS WINAPI mend_PdhCloseQuery(PDH_HQUERY query)
{
    struct query *q = to_query(query);
    if (!q) return PDH_INVALID_HANDLE;
    EnterCriticalSection(&lock);
    for (struct counter *c = q->first, *next; c; c = next) {
        next = c->next;
        c->magic = 0;
        HeapFree(GetProcessHeap(), 0, c->items);
        HeapFree(GetProcessHeap(), 0, c);
    }
    q->magic = 0;
    HeapFree(GetProcessHeap(), 0, q);
    LeaveCriticalSection(&lock);
    return ERROR_SUCCESS;
}

PDH_STATUS WINAPI mend_PdhValidatePathW(LPCWSTR path)
{
    if (!path) return PDH_INVALID_ARGUMENT;
    return find(path) ? ERROR_SUCCESS : PDH_CSTATUS_NO_COUNTER;
}

PDH_STATUS WINAPI mend_PdhValidatePathA(LPCSTR path)
{
    WCHAR wide[PDH_MAX_COUNTER_PATH];
    if (!path || !MultiByteToWideChar(CP_ACP, 0, path, -1, wide, ARRAYSIZE(wide))) return PDH_INVALID_ARGUMENT;
    return mend_PdhValidatePathW(wide);
}

static void format(double value, DWORD format_flags, PDH_FMT_COUNTERVALUE *out)
{
    out->CStatus = PDH_CSTATUS_VALID_DATA;
    if (format_flags & PDH_FMT_LARGE) out->largeValue = (LONGLONG)value;
    else if (format_flags & PDH_FMT_LONG) out->longValue = (LONG)value;
    else out->doubleValue = value;
}

PDH_STATUS WINAPI mend_PdhGetFormattedCounterValue(PDH_HCOUNTER counter, DWORD flags, LPDWORD type, PDH_FMT_COUNTERVALUE *value)
{
    struct counter *c = to_counter(counter);
    if (!c) return PDH_INVALID_HANDLE;
    if (!value) return PDH_INVALID_ARGUMENT;
    EnterCriticalSection(&lock);
    BOOL ready = c->last_tick && c->count;
    if (ready) format(c->items[0].value, flags, value);
    LeaveCriticalSection(&lock);
    if (type) *type = 0x00010100; // PERF_COUNTER_LARGE_RAWCOUNT
    return ready ? ERROR_SUCCESS : PDH_CSTATUS_INVALID_DATA;
}

PDH_STATUS WINAPI mend_PdhGetFormattedCounterArrayW(PDH_HCOUNTER counter, DWORD flags, LPDWORD size, LPDWORD count,
                                               PDH_FMT_COUNTERVALUE_ITEM_W *out)
{
    struct counter *c = to_counter(counter);
    if (!c) return PDH_INVALID_HANDLE;
    if (!size || !count) return PDH_INVALID_ARGUMENT;
    EnterCriticalSection(&lock);
    // The names follow the array in the caller's buffer.
    DWORD items = c->count, need = items * (DWORD)(sizeof(*out) + NAME_LEN * sizeof(WCHAR));
    // A wildcard without instances still asks for a buffer first: callers take
    // anything but PDH_MORE_DATA on the first call for a failure.
    if (!need) need = sizeof(*out);
    if (!out || *size < need) {
        *size = need;
        *count = items;
        LeaveCriticalSection(&lock);
        return PDH_MORE_DATA;
    }
    WCHAR *names = (WCHAR *)(out + items);
    for (DWORD i = 0; i < items; i++) {
        WCHAR *name = names + i * NAME_LEN;
        lstrcpynW(name, c->items[i].name, NAME_LEN);
        out[i].szName = name;
        format(c->items[i].value, flags, &out[i].FmtValue);
    }
    *size = need;
    *count = items;
    LeaveCriticalSection(&lock);
    return ERROR_SUCCESS;
}

BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void *reserved)
{
    (void)reserved;
    if (reason == DLL_PROCESS_ATTACH) {
        DisableThreadLibraryCalls(module);
        InitializeCriticalSection(&lock);
    }
    return TRUE;
}
