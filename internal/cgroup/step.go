// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cgroup

import (
	"path/filepath"
	"strconv"
	"strings"
)

// Limits of everything in a group together. Zero means none.
type Limits struct {
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// MilliCPU is the share of processor time: 2000 is two processors.
	MilliCPU  int64 `json:"milliCPU,omitempty"`
	Processes int64 `json:"processes,omitempty"`
}

// op is the operation of a step.
type op string

const (
	mkdir op = "mkdir" // makes a group, unless it exists
	// inherit copies a setting of the parent if the group has none.
	inherit op = "inherit"
	// enable enables the controllers that mullion uses for the children of a
	// version 2 group.
	enable op = "enable"
	write  op = "write"
)

// step is one change of a hierarchy.
type step struct {
	op   op
	path string // of a directory or a file, below the mount point
	text string // of write
	// needs restricts write to groups of version 2 that have this controller:
	// those of hybrid machines usually have none.
	needs string
}

// String formats a step for tests and errors: "write memory/a/memory.limit_in_bytes 4096".
func (s step) String() string {
	out := string(s.op) + " " + s.path
	if s.text != "" {
		out += " " + s.text
	}
	if s.needs != "" {
		out += " if " + s.needs
	}
	return out
}

// controllers are those that containers use, as version 2 names them.
func controllers() []string { return []string{"cpuset", "cpu", "io", "memory", "pids"} }

// cpuPeriod is the kernel's default, in microseconds.
const cpuPeriod = 100_000

// makeSteps describe how the group path and those above it are made.
func makeSteps(h Hierarchy, path string, l Limits) []step {
	var steps []step
	dir := h.Dir
	for name := range strings.SplitSeq(path, "/") {
		if h.V2() {
			steps = append(steps, step{op: enable, path: dir})
		}
		dir = filepath.Join(dir, name)
		steps = append(steps, childSteps(h, dir)...)
	}
	return append(steps, limitSteps(h, dir, l)...)
}

// childSteps describe how one group is made.
func childSteps(h Hierarchy, dir string) []step {
	steps := []step{{op: mkdir, path: dir}}
	if h.has("cpuset") {
		// No process can enter a cpuset before these two are set.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			steps = append(steps, step{op: inherit, path: filepath.Join(dir, file)})
		}
	}
	return steps
}

// limitSteps describe the limits of a group.
func limitSteps(h Hierarchy, dir string, l Limits) []step {
	memory, quota := strconv.FormatInt(l.MemoryBytes, 10), strconv.FormatInt(l.MilliCPU*cpuPeriod/1000, 10)
	var steps []step
	for _, x := range []struct {
		limit      int64
		controller string
		v2, v1     step
	}{
		{
			limit: l.MemoryBytes, controller: "memory",
			v2: step{path: "memory.max", text: memory},
			v1: step{path: "memory.limit_in_bytes", text: memory},
		},
		{
			limit: l.MilliCPU, controller: "cpu",
			v2: step{path: "cpu.max", text: quota + " " + strconv.Itoa(cpuPeriod)},
			v1: step{path: "cpu.cfs_quota_us", text: quota},
		},
		{
			limit: l.Processes, controller: "pids",
			v2: step{path: "pids.max", text: strconv.FormatInt(l.Processes, 10)},
			v1: step{path: "pids.max", text: strconv.FormatInt(l.Processes, 10)},
		},
	} {
		if x.limit <= 0 || !h.V2() && !h.has(x.controller) {
			continue
		}
		s := x.v1
		if h.V2() {
			s = x.v2
			s.needs = x.controller
		}
		s.op, s.path = write, filepath.Join(dir, s.path)
		steps = append(steps, s)
	}
	return steps
}

// enterStep describes how a process comes into a group.
func enterStep(h Hierarchy, path string, pid int) step {
	return step{op: write, path: filepath.Join(h.Dir, path, "cgroup.procs"), text: strconv.Itoa(pid)}
}

// splitSteps describe Group.Split.
func splitSteps(h Hierarchy, path, leaf, inner string, pid int) []step {
	dir := filepath.Join(h.Dir, path)
	steps := append(childSteps(h, filepath.Join(dir, leaf)), childSteps(h, filepath.Join(dir, inner))...)
	steps = append(steps, enterStep(h, filepath.Join(path, leaf), pid))
	if h.V2() {
		steps = append(steps, step{op: enable, path: dir}, step{op: enable, path: filepath.Join(dir, inner)})
	}
	return steps
}
