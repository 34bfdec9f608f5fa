// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package apply makes a host's network namespace be as an intent says. It is
// the data plane that the emulated Host Networking Service works with.
//
// Apply is idempotent and complete: it is given everything that shall be, finds
// out what changed since the last call, and returns when the kernel has it.
// The order of one call is: add and mend links and routes; replace or change
// the nftables table in one transaction; forget conntrack entries that lead
// nowhere; remove links and routes that are no longer wanted. If anything fails
// before the transaction, what was added is taken back.
//
// # Restart
//
// A new Plane knows nothing. Its first Apply, and the next after any failure,
// compares with the kernel instead of with its memory: links whose names begin
// with compile.LinkPrefix and routes with kernel.RouteProtocol are ours, those
// that fit are kept with their traffic, the others removed, and the table is
// replaced as a whole. Established connections live on in conntrack.
//
// # Concurrency
//
// A Plane is safe for concurrent use; calls of Apply run one after the other.
// Only one Plane may work on a network namespace.
package apply
