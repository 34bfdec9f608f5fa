// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wrap

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// noConsole starts a console program without a console. A service doesn't have a console,
// so the system would create one, with its own process (conhost.exe) and, in an emulated
// host, an unused desktop. The program does not need it: its output is a pipe, and the
// service manager controls services.
func noConsole() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS}
}
