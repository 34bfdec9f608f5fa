// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wrap

import "syscall"

// noConsole returns nil on Linux.
func noConsole() *syscall.SysProcAttr { return nil }
