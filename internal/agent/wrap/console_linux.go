// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wrap

import "syscall"

// noConsole has nothing to do on Linux.
func noConsole() *syscall.SysProcAttr { return nil }
