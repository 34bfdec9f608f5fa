// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package kernel holds the few things that everybody who shapes a Linux network
// namespace needs: make one that outlives its maker, work in it from a process
// that is elsewhere, and set links, addresses, routes, sysctls and nftables
// there. It knows nothing of Windows or Kubernetes.
//
// A network namespace belongs to a thread. Whatever must run inside of another
// namespace therefore runs on a thread of its own that is never given back to
// Go's scheduler: a goroutine that ends while locked to its thread ends the
// thread (runtime.LockOSThread). Most work needs no such thread: a netlink
// socket stays in the namespace in which it was opened.
//
// Nothing here assumes /run/netns or the ip program. /proc must be mounted.
package kernel
