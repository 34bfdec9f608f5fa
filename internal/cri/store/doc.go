// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package store remembers sandboxes and containers, in memory and on disk.
//
// # On disk
//
// One directory per object, DIR/sandboxes/ID and DIR/containers/ID, with
// record.json in it; the rest of the directory belongs to the caller. A record
// is replaced in one step and is on the disk when Put returns. A directory
// without a record is a creation that never began or a removal that was nearly
// done; Leftovers names them.
//
// # State
//
// A record holds facts: when something happened, and what came of it. The
// state is derived from them:
//
//	container    [*] --> made --> running --> exited --> (gone)
//	                       |                    ^  |
//	                       +---- start failed --+  +-- Removing
//
// A record whose Made is zero is of a creation that did not finish; the caller
// takes it back after a restart. Removing is set before the first step of a
// removal, so that one that was interrupted is finished and never undone.
//
// # Concurrency
//
// Records are values: Get returns a copy, Put replaces. Lock serialises the
// operations on one object; readers need no lock.
package store
