// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package runc drives runc and conmon: it creates containers from OCI bundles,
// starts, signals and deletes them, runs more processes in them, and reports
// their exit codes.
//
// # Ownership
//
// A container's processes are children of its conmon, which writes the log in
// CRI's format, serves the attach socket and, at the end, writes the exit code
// into a file. conmon is a child of PID 1, so containers outlive the process
// that uses this package. All information about a running container is therefore on
// disk; a Runtime is stateless and may be created again at any time.
//
// # Files
//
// In a container's bundle: config.json, pidfile (PID of the container's first
// process), conmon.pid, ctl (a pipe for conmon's orders), attach (a socket),
// oom (exists if the kernel killed a process in it because memory ran out). In
// the exit directory: one file per ended container, named after its ID.
//
// # Sources
//
// conmon(8) and github.com/containers/conmon v2.1.6; how its pipes are used is
// in github.com/cri-o/cri-o internal/oci/runtime_oci.go.
package runc
