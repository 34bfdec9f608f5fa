// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package oci describes a Windows container as an OCI runtime configuration
// for Linux. It is pure: the same Config gives the same bytes, nothing is
// looked up and nothing happens.
//
// The description is also the fence. A container's process is an unprivileged
// user without capabilities and without a way to get any (no_new_privs), in
// its own mount, PID, IPC, UTS and cgroup namespaces, with a root directory
// that holds nothing of the machine but what Wine needs, no /sys, a /dev of
// seven nodes and a list of system calls.
//
// # Sources
//
// OCI runtime specification 1.0.2 (github.com/opencontainers/runtime-spec);
// the masked paths and the list of system calls follow
// github.com/moby/moby/oci/defaults.go and profiles/seccomp/default.json.
package oci
