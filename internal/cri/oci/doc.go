// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package oci describes a Windows container as an OCI runtime configuration
// for Linux. It is pure: the same Config gives the same bytes, and no function
// reads or changes anything else.
//
// The configuration also isolates the container. Its process is an unprivileged
// user without capabilities and without a way to get any (no_new_privs), in
// its own mount, PID, IPC, UTS and cgroup namespaces, with a root directory
// that holds only the files of the machine that Wine needs, no /sys, a /dev with
// seven nodes and a list of allowed system calls.
//
// # Sources
//
// OCI runtime specification 1.0.2 (github.com/opencontainers/runtime-spec);
// the masked paths and the list of system calls follow
// github.com/moby/moby/oci/defaults.go and profiles/seccomp/default.json.
package oci
