// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package manager

import (
	"context"
	"runtime"
	"runtime/debug"
)

// between is how much is allocated between two collections of garbage, in bytes:
// some 1,500 reviews. Of a hundred answers the slowest is one that met a
// collection, and with Go's own setting, which goes by what is alive (a few
// megabytes), every hundredth would. It is a quarter of what an installation's
// manager may use.
const between = 128 << 20

// inWork is what is alive beside that while reviews are answered, in bytes.
const inWork = 4 << 20

// collectSeldom sets the collector of a process that only is a manager, once it
// has read what it keeps.
func (m *Manager) collectSeldom(context.Context) error {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	debug.SetGCPercent(max(100, int(between*100/(s.HeapAlloc+inWork))))
	return nil
}
