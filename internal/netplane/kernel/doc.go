// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package kernel has basic operations on Linux network namespaces: create one
// that outlives its creator, work in it from a process in another namespace, and
// set its links, addresses, routes, sysctls and nftables. It is independent of
// Windows and Kubernetes.
//
// A network namespace belongs to a thread. Code that must run inside another
// namespace therefore runs on a separate thread that is never returned to Go's
// scheduler: a goroutine that ends while locked to its thread ends the thread
// (runtime.LockOSThread). Most operations need no such thread: a netlink socket
// stays in the namespace in which it was opened.
//
// The package needs neither /run/netns nor the ip program. /proc must be mounted.
package kernel
