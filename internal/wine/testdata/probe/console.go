// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// console makes a console, and reads and sets its properties: programs of .NET set the code page to UTF-8.
// Source: https://learn.microsoft.com/windows/console/console-functions, read 2026-11.
func console(t *probe) {
	kernel32 := windows.NewLazySystemDLL("kernel32.dll")
	call := func(name string, args ...uintptr) uintptr {
		r, _, err := kernel32.NewProc(name).Call(args...)
		if r == 0 {
			t.errorf("%s%v: %v", name, args, err)
		}
		return r
	}
	kernel32.NewProc("FreeConsole").Call()
	call("AllocConsole")
	for _, page := range []uintptr{65001, 1252, 437} {
		for _, pair := range [][2]string{{"SetConsoleCP", "GetConsoleCP"}, {"SetConsoleOutputCP", "GetConsoleOutputCP"}} {
			call(pair[0], page)
			if got := call(pair[1]); got != page {
				t.errorf("%s: %d, want %d", pair[1], got, page)
			}
		}
	}
	if r, _, err := kernel32.NewProc("SetConsoleCP").Call(12345); r != 0 || err != syscall.EINVAL &&
		err != windows.ERROR_INVALID_PARAMETER {
		t.errorf("SetConsoleCP(12345): %d, %v", r, err)
	}
	in, err := os.OpenFile("CONIN$", os.O_RDWR, 0)
	t.must(err)
	count := uint32(99)
	call("GetNumberOfConsoleInputEvents", in.Fd(), uintptr(unsafe.Pointer(&count)))
	if count != 0 {
		t.errorf("%d events, want none", count)
	}
	out, err := os.OpenFile("CONOUT$", os.O_RDWR, 0)
	t.must(err)
	var mode uint32
	t.must(windows.GetConsoleMode(windows.Handle(out.Fd()), &mode))
	t.must(windows.SetConsoleMode(windows.Handle(out.Fd()), mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING))
	var info windows.ConsoleScreenBufferInfo
	t.must(windows.GetConsoleScreenBufferInfo(windows.Handle(out.Fd()), &info))
	if info.Size.X < 1 || info.Size.Y < 1 {
		t.errorf("a console of %d x %d characters", info.Size.X, info.Size.Y)
	}
}
