// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package manager

import (
	"context"
	"runtime"
	"runtime/debug"
)

// gcInterval is how many bytes are allocated between two garbage collections:
// about 1,500 reviews. With Go's default, which depends on the size of the live
// heap (a few megabytes), one review in a hundred would meet a collection, and be
// the slowest of them. It is a quarter of the memory limit of an installation's
// manager.
const gcInterval = 128 << 20

// liveBytes is the part of the heap that is live while reviews are answered, in
// bytes, in addition to the manager's caches.
const liveBytes = 4 << 20

// collectSeldom sets the collector of a process that only is a manager, once it
// has filled its caches.
func (m *Manager) collectSeldom(context.Context) error {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	debug.SetGCPercent(max(100, int(gcInterval*100/(s.HeapAlloc+liveBytes))))
	return nil
}
