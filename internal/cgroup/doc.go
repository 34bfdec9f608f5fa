// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package cgroup creates, reads and removes cgroups, on machines with one
// hierarchy (version 2) and with several (version 1, or hybrid if one of them is
// version 2). Changes are described first, as steps that each write one file, and
// then performed.
package cgroup
