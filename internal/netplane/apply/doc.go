// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package apply makes a host's network namespace match an intent. It is the data
// plane of the emulated Host Networking Service.
//
// Apply is idempotent and complete: it takes the whole desired state, determines
// the changes since the last call, and returns once the kernel has it. One call
// works in this order: add and repair links and routes; replace or change the
// nftables table in one transaction; delete conntrack entries that lead nowhere;
// remove links and routes that are no longer wanted. If a step before the
// transaction fails, the additions are undone.
//
// # Restart
//
// A new Plane has no state. Its first Apply, and the first after any failure,
// compares the plan with the kernel instead of with the last plan. Links whose
// names begin with compile.LinkPrefix or compile.TunnelPrefix and routes with kernel.routeProtocol belong
// to the Plane: matching ones are kept without interrupting their traffic, the others are removed, and
// the table is replaced as a whole. Established connections survive in conntrack.
//
// # Concurrency
//
// A Plane is safe for concurrent use; calls of Apply run one after the other.
// Only one Plane may work on a network namespace.
package apply
