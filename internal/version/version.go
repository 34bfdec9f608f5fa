// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package version knows which mullion this is.
package version

// version is stamped by the linker: see LDFLAGS in the Makefile.
var version = "v0.0.0-unknown"

// Kubernetes is the version of Kubernetes that is built in. The same number
// stands in go.mod, where it pins the code; a test keeps the two together.
const Kubernetes = "v1.36.3"

// String is the version of mullion, as git describes it.
func String() string { return version }
