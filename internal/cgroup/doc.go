// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package cgroup makes, reads and removes cgroups, on machines with one
// hierarchy (version 2) and with many (version 1, or hybrid if one of them is
// version 2). What is written to which file is described first, as steps, and
// then done.
package cgroup
