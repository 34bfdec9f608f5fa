// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cgroup

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Limits of everything in a group together. Zero means no limit.
type Limits struct {
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// MilliCPU is the most processor time: 2000 is two processors.
	MilliCPU int64 `json:"milliCPU,omitempty"`
	// CPUs are the processors that may be used, as the kernel writes them: 0-1,4.
	CPUs string `json:"cpus,omitempty"`
	// CPUShares is the weight among the groups beside it while processors are busy;
	// a group without has 1024.
	CPUShares int64 `json:"cpuShares,omitempty"`
	// Processes counts threads too.
	Processes int64 `json:"processes,omitempty"`
}

// op is the operation of a step.
type op string

const (
	mkdir op = "mkdir" // makes a group, unless it exists
	// inherit copies a setting of the parent if the group's is empty.
	inherit op = "inherit"
	// enable enables the controllers that mullion uses for the children of a
	// version 2 group.
	enable  op = "enable"
	write   op = "write"
	confine op = "confine devices" // of a version 2 group
)

// step is one change of a hierarchy.
type step struct {
	op   op
	path string // of a directory or a file, below the mount point
	text string // of write
	// optional leaves a file out that this kernel does not have.
	optional bool
	// needs restricts write to groups of version 2 that have this controller:
	// groups of hybrid machines usually have no controllers.
	needs   string
	devices []string // of confine
}

// String formats a step for tests and errors: "write memory/a/memory.limit_in_bytes 4096".
func (s step) String() string {
	out := string(s.op) + " " + s.path
	if s.text != "" {
		out += " " + s.text
	}
	if len(s.devices) > 0 {
		out += " to " + strings.Join(s.devices, ", ")
	}
	if s.needs != "" {
		out += " if " + s.needs
	}
	if s.optional {
		out += " if it exists"
	}
	return out
}

// controllers returns the controllers that containers use, as version 2 names them.
func controllers() []string { return []string{"cpuset", "cpu", "io", "memory", "pids"} }

// cpuPeriod is the kernel's default, in microseconds.
const cpuPeriod = 100_000

// makeSteps describe how the group path and the groups above it are made.
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
	if l.CPUs != "" && (h.has("cpuset") || h.V2()) {
		s := step{op: write, path: filepath.Join(dir, "cpuset.cpus"), text: l.CPUs}
		if h.V2() {
			s.needs = "cpuset"
		}
		steps = append(steps, s)
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

// limit is a limit in the two versions of cgroups.
type limit struct {
	value      int64
	controller string
	v1, v2     []step // with the names of files as paths
}

func (l Limits) list() []limit {
	memory, tasks := strconv.FormatInt(l.MemoryBytes, 10), strconv.FormatInt(l.Processes, 10)
	quota := strconv.FormatInt(l.MilliCPU*cpuPeriod/1000, 10)
	return []limit{
		{
			value: l.MemoryBytes, controller: "memory",
			// Programs must not evade the limit into swap. Version 1 counts memory and
			// swap together, never below memory alone: first away with the old sum.
			v1: []step{
				{path: "memory.memsw.limit_in_bytes", text: "-1", optional: true},
				{path: "memory.limit_in_bytes", text: memory},
				{path: "memory.memsw.limit_in_bytes", text: memory, optional: true},
			},
			v2: []step{{path: "memory.max", text: memory}, {path: "memory.swap.max", text: "0", optional: true}},
		},
		{
			value: l.MilliCPU, controller: "cpu",
			v1: []step{{path: "cpu.cfs_quota_us", text: quota}},
			v2: []step{{path: "cpu.max", text: quota + " " + strconv.Itoa(cpuPeriod)}},
		},
		{
			value: l.CPUShares, controller: "cpu",
			v1: []step{{path: "cpu.shares", text: strconv.FormatInt(l.CPUShares, 10)}},
			v2: []step{{path: "cpu.weight", text: strconv.FormatInt(weight(l.CPUShares), 10)}},
		},
		{
			value: l.Processes, controller: "pids",
			v1: []step{{path: "pids.max", text: tasks}},
			v2: []step{{path: "pids.max", text: tasks}},
		},
	}
}

// weight maps shares (2 to 262144, 1024 by default) to version 2's weight (1 to 10000,
// 100 by default) as runc does, opencontainers/cgroups, ConvertCPUSharesToCgroupV2Value,
// before its version 0.0.5.
func weight(shares int64) int64 { return 1 + (max(shares, 2)-2)*9999/262142 }

// limitSteps describe the limits of a group.
func limitSteps(h Hierarchy, dir string, l Limits) []step {
	var steps []step
	for _, x := range l.list() {
		if x.value <= 0 || !h.V2() && !h.has(x.controller) {
			continue
		}
		list, needs := x.v1, ""
		if h.V2() {
			list, needs = x.v2, x.controller
		}
		for _, s := range list {
			s.op, s.path, s.needs = write, filepath.Join(dir, s.path), needs
			steps = append(steps, s)
		}
	}
	return steps
}

// deviceSteps describe how a group gets its list of devices: by version 1's controller, or by version 2 where
// no hierarchy has that.
func deviceSteps(hs Hierarchies, h Hierarchy, path string, devices []string) []step {
	if len(devices) == 0 {
		return nil
	}
	dir := filepath.Join(h.Dir, path)
	if h.V2() && !slices.ContainsFunc(hs.List, func(o Hierarchy) bool { return o.has("devices") }) {
		return []step{{op: confine, path: dir, devices: devices}}
	}
	if !h.has("devices") {
		return nil
	}
	steps := []step{{op: write, path: filepath.Join(dir, "devices.deny"), text: "a"}}
	for _, d := range devices {
		steps = append(steps, step{op: write, path: filepath.Join(dir, "devices.allow"), text: d})
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
