// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package version holds the version of mullion.
package version

// version is set by the linker: see LDFLAGS in the Makefile.
var version = "v0.0.0-unknown"

// Kubernetes is the version of the linked Kubernetes. go.mod pins the same
// version; a test compares the two.
const Kubernetes = "v1.36.3"

// String returns the version of mullion, from git describe.
func String() string { return version }
