// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package version has the versions of mullion and of the Kubernetes that it is built
// with, for the commands, the logs and the checks of data from other versions.
package version

import "golang.org/x/mod/semver"

// version is set by the linker: see LDFLAGS in the Makefile.
var version = "v0.0.0-unknown"

// Kubernetes is the version of the linked Kubernetes. go.mod pins the same
// version; a test compares the two.
const Kubernetes = "v1.36.3"

// Newer reports whether data of Kubernetes v may not be readable here: whether v
// has a later minor version than the Kubernetes of this program.
func Newer(v string) bool {
	return semver.Compare(semver.MajorMinor(v), semver.MajorMinor(Kubernetes)) > 0
}

// String returns the version of mullion, from git describe: always a semantic
// version, because kubelets report a runtime of any other as "Unknown", and the
// tools that read nodes parse what they report.
func String() string { return semantic(version) }

func semantic(v string) string {
	if semver.IsValid(v) {
		return v
	}
	// A clone without tags has only the commit. The letter keeps a hash of digits
	// from being a number, which must not begin with a zero.
	if with := "v0.0.0-g" + v; v != "" && semver.IsValid(with) {
		return with
	}
	return "v0.0.0-unknown"
}
