// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package store keeps the records of sandboxes and containers, in memory and on
// disk.
//
// # On disk
//
// One directory per object, DIR/sandboxes/ID and DIR/containers/ID, with
// record.json in it; the rest of the directory belongs to the caller. A record
// is replaced atomically and is on disk when Put returns. A directory without a
// record is left from a creation that had hardly begun or a removal that was
// almost complete; Leftovers lists them.
//
// # State
//
// A record holds facts: the times of events and their results. The state is derived
// from them:
//
//	container    [*] --> made --> running --> exited --> (gone)
//	                       |                    ^  |
//	                       +---- start failed --+  +-- Removing
//
// A record whose Made is zero belongs to a creation that did not finish; the
// caller undoes it after a restart. Removing is set before the first step of a
// removal, so that an interrupted removal is completed and never undone.
//
// # Concurrency
//
// Records are values: Get returns a copy, Put replaces. Lock serialises the
// operations on one object; readers need no lock.
package store
