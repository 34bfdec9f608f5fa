// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package runc drives runc and conmon: it makes containers from OCI bundles,
// starts, signals and deletes them, runs more processes in them, and says how
// they ended.
//
// # Who holds what
//
// A container's processes are children of its conmon, which writes the log in
// CRI's format, serves the attach socket and, at the end, writes the exit code
// into a file. conmon belongs to nobody but PID 1, so that containers outlive
// the process that this package is linked into. All that this package knows of
// a running container is therefore on disk; a Runtime has no state of its own
// and may be made anew at any moment.
//
// # Files
//
// In a container's bundle: config.json, pidfile (PID of the container's first
// process), conmon.pid, ctl (a pipe for conmon's orders), attach (a socket),
// oom (exists if the kernel killed something in it for want of memory). In the
// exit directory: one file per ended container, named by its ID.
//
// # Sources
//
// conmon(8) and github.com/containers/conmon v2.1.6; how its pipes are used is
// in github.com/cri-o/cri-o internal/oci/runtime_oci.go.
package runc
