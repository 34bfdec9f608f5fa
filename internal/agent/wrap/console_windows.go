// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wrap

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// noConsole keeps a console program from getting a console. A service has none,
// so the system would make one for it, with a process of its own (conhost.exe)
// and, in an emulated host, a desktop that nobody looks at. Nothing is lost: the
// program's output is a pipe, and services are controlled by the service
// manager.
func noConsole() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS}
}
