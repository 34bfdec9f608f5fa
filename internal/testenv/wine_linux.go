// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package testenv

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// inWine is set in a process that EnterWine has started.
const inWine = "MULLION_TEST_IN_WINE"

// EnterWine starts the test program again with bin/wine over the machine's /usr, in a mount namespace of its own:
// Wine runs only with the C library that it was built for, which the root directory of an emulated host has. A
// TestMain calls it first. Without root or bin/wine it does nothing, and the tests that need them report it.
func EnterWine() {
	if os.Getenv(inWine) != "" || missing(Root) != "" || missing(Wine) != "" {
		return
	}
	fail := func(err error) { panic(fmt.Sprintf("testenv: enter Wine: %v", err)) }
	// The new program gets the namespace of the thread that executes it.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		fail(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fail(err)
	}
	if err := unix.Mount("overlay", "/usr", "overlay", 0, "lowerdir="+Bin("wine", "usr")+":/usr"); err != nil {
		fail(err)
	}
	self, err := os.Executable()
	if err != nil {
		fail(err)
	}
	fail(syscall.Exec(self, os.Args, append(os.Environ(), inWine+"=1")))
}
