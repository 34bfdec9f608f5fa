// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// queue checks the features that services have without a visible desktop: a window
// station, a message queue, a window for messages only, timers.
func queue(t *probe) {
	runtime.LockOSThread()
	user := syscall.NewLazyDLL("user32.dll")
	call := func(name string, args ...uintptr) uintptr {
		result, _, err := user.NewProc(name).Call(args...)
		if result == 0 {
			t.errorf("%s: %v", name, err)
		}
		return result
	}
	call("GetProcessWindowStation")
	text := func(s string) uintptr { return uintptr(unsafe.Pointer(syscall.StringToUTF16Ptr(s))) }
	const messageOnly = ^uintptr(2) // HWND_MESSAGE, -3
	window := call("CreateWindowExW", 0, text("STATIC"), text("probe"), 0, 0, 0, 0, 0, messageOnly, 0, 0, 0)
	const user1 = 0x401
	call("PostMessageW", window, user1, 7, 8)
	call("SetTimer", window, 1, 20, 0)
	var message struct {
		window  uintptr
		message uint32
		w, l    uintptr
		_       [24]byte
	}
	want := []uint32{user1, 0x113} // WM_TIMER
	for _, w := range want {
		got := uintptr(0)
		for begin := time.Now(); got == 0 && time.Since(begin) < 10*time.Second; time.Sleep(5 * time.Millisecond) {
			const remove = 1 // PM_REMOVE
			got, _, _ = user.NewProc("PeekMessageW").Call(uintptr(unsafe.Pointer(&message)), window, 0, 0, remove)
		}
		if got == 0 || message.message != w {
			t.errorf("got %d messages, the last %#x, want %#x", got, message.message, w)
		}
	}
	call("DestroyWindow", window)
	if desktop := call("GetDesktopWindow"); desktop == 0 {
		t.errorf("no desktop window")
	}
}
