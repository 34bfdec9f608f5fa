// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// stacks checks that a thread costs the memory that it uses, not its whole stack.
func stacks(t *probe) {
	const threads, limit = 32, 256 << 10 // bytes of a thread; about 50 KB are used
	before := workingSet(t)
	var up sync.WaitGroup
	end := make(chan struct{})
	for range threads {
		up.Add(1)
		go func() {
			runtime.LockOSThread() // each on its own thread
			up.Done()
			<-end
		}()
	}
	up.Wait()
	if each := (workingSet(t) - before) / threads; each > limit {
		t.errorf("a thread costs %d KB of memory", each>>10)
	}
	close(end)
}

func workingSet(t *probe) int {
	// PROCESS_MEMORY_COUNTERS of psapi.h.
	var m struct {
		cb, faults     uint32
		peak, workings uintptr
		rest           [6]uintptr
	}
	m.cb = uint32(unsafe.Sizeof(m))
	ok, _, err := windows.NewLazySystemDLL("kernel32.dll").NewProc("K32GetProcessMemoryInfo").Call(
		uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&m)), uintptr(m.cb))
	if ok == 0 {
		t.must(err)
	}
	return int(m.workings)
}
