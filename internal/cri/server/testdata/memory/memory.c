// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Allocates memory in the ways that the first argument names, and prints the results.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#define MIB (1024ull * 1024)

static unsigned long long argument(char **argv, int i) { return strtoull(argv[i], NULL, 10); }

static void *commit(SIZE_T size) { return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE); }

static void *map(SIZE_T size)
{
    HANDLE section = CreateFileMappingW(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, (DWORD)(size >> 32), (DWORD)size, NULL);
    return section ? MapViewOfFile(section, FILE_MAP_WRITE, 0, 0, size) : NULL;
}

// once allocates one block, and prints the error if there is none.
static void once(void *(*allocate)(SIZE_T), SIZE_T size)
{
    SetLastError(0);
    if (allocate(size)) printf("ok\n");
    else printf("error %lu\n", GetLastError());
}

// many allocates blocks until there are none, and prints how many MiB it got.
static void many(void *(*allocate)(SIZE_T), SIZE_T size, int written)
{
    unsigned long long n = 0;
    SetLastError(0);
    for (char *p; n < 4096 * MIB && (p = allocate(size)); n += size)
        if (written) memset(p, 1, size);
    printf("%llu %lu\n", n / MIB, GetLastError());
}

static DWORD WINAPI sleeper(void *arg)
{
    WaitForSingleObject(arg, INFINITE);
    return 0;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    SIZE_T size = argc > 2 ? (SIZE_T)(argument(argv, 2) * MIB) : 0;
    if (!strcmp(how, "commit")) once(commit, size);
    else if (!strcmp(how, "map")) once(map, size);
    else if (!strcmp(how, "malloc")) many(malloc, size, 1);
    else if (!strcmp(how, "small")) many(malloc, 1000, 1);
    else if (!strcmp(how, "unwritten")) many(commit, size, 0);
    else if (!strcmp(how, "reserve")) {
        char *p = VirtualAlloc(NULL, size, MEM_RESERVE, PAGE_READWRITE);
        printf("%d %d\n", p != NULL, p && VirtualAlloc(p + size / 2, 65536, MEM_COMMIT, PAGE_READWRITE));
    } else if (!strcmp(how, "again")) { // commits, frees, and commits again
        int failed = 0;
        for (int i = 0; i < 5; i++) {
            char *p = commit(size);
            if (p) memset(p, 1, size);
            failed += !p || !VirtualFree(p, 0, MEM_RELEASE);
        }
        printf("%d failed\n", failed);
    } else if (!strcmp(how, "recommit")) { // what is committed can be committed again when nothing is left
        char *p = commit(size);
        while (commit(MIB)) {}
        printf("%d\n", p && VirtualAlloc(p, size, MEM_COMMIT, PAGE_READWRITE));
    } else if (!strcmp(how, "threads")) { // do not count with their whole stacks
        HANDLE never = CreateEventW(NULL, TRUE, FALSE, NULL);
        for (int i = 0; i < 100; i++)
            if (!CreateThread(NULL, 0, sleeper, never, 0, NULL)) printf("thread: error %lu\n", GetLastError());
        once(commit, size);
    } else if (!strcmp(how, "child")) { // runs this program in what is left
        STARTUPINFOA start = {sizeof(start)};
        PROCESS_INFORMATION info;
        char line[] = "memory.exe malloc 4", *p = commit(size);
        if (p) memset(p, 1, size);
        if (!size) many(malloc, MIB, 1);
        fflush(stdout);
        if (!CreateProcessA(argv[0], line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &info))
            printf("error %lu\n", GetLastError());
        else WaitForSingleObject(info.hProcess, INFINITE);
    } else if (!strcmp(how, "hold")) { // all that there is
        many(malloc, MIB, 1);
        fflush(stdout);
        Sleep(INFINITE);
    } else if (!strcmp(how, "time")) { // of a commit of 64 KiB and its release: alone, and with a write to each page
        const int rounds = 2000, block = 65536;
        LARGE_INTEGER a, b, f;
        if (size) many(commit, size, 1); // leaves so little that each is measured
        QueryPerformanceFrequency(&f);
        for (int written = 0; written < 2; written++) {
            QueryPerformanceCounter(&a);
            for (int i = 0; i < rounds; i++) {
                char *p = commit(block);
                for (int at = 0; written && p && at < block; at += 4096) p[at] = 1;
                VirtualFree(p, 0, MEM_RELEASE);
            }
            QueryPerformanceCounter(&b);
            printf("%lld ", (b.QuadPart - a.QuadPart) * 1000000000 / f.QuadPart / rounds);
        }
    }
    return 0;
}
