// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// replaced checks that winemend.dll could replace each function: it recognizes the first instructions of those of
// the Wine in native/packages.txt, and leaves others as they are. On Windows there is no such DLL.
func replaced(t *probe) {
	for _, dll := range []string{"user32.dll", "advapi32.dll", "crypt32.dll", "sechost.dll", "secur32.dll", "userenv.dll"} {
		_, err := windows.LoadLibrary(dll)
		t.must(err)
	}
	failed := windows.NewLazyDLL("winemend.dll").NewProc("winemend_failed")
	t.must(failed.Find())
	// A pointer to the DLL's memory, which Go does not move.
	count := failed.Addr()
	if n := **(**int32)(unsafe.Pointer(&count)); n != 0 {
		t.errorf("%d functions were not replaced", n)
	}
}
