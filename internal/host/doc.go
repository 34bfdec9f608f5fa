// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package host is the common part of the hosts of a cluster of any operating
// system: a set of Linux namespaces (network, UTS, PID, IPC, mount, cgroup) with a
// root file system of their own, and two of mullion's processes.
//
//	parent (Run)        on the machine: lock, cgroup, cable, status file
//	└─ process 1 (Init) in the host: mounts, pivot_root, reaps, supervises
//
// Packages winhost and linuxhost describe the mounts and programs. A host cannot
// write files of the machine outside of its own directory, and no process inside
// survives the parent: process 1 gets SIGKILL when the parent dies, and with it the
// kernel kills every process of its PID namespace.
package host
