// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import "runtime/debug"

// Values of GOGC: garbage is collected after growth by this percentage of the live heap.
const (
	// startGCPercent: while it starts, the process allocates a few hundred
	// megabytes and the processors are the bottleneck.
	startGCPercent = 400
	// idleGCPercent: afterwards memory matters more. At 50 the heap is at most half
	// as large again as the live memory; the processor time of an idle control
	// plane hardly changes (docs/internals/controlplane.md has the figures).
	idleGCPercent = 50
)

// releaseStartMemory is called after the start and returns the memory that it needed.
func releaseStartMemory() {
	debug.SetGCPercent(idleGCPercent)
	debug.FreeOSMemory()
}
