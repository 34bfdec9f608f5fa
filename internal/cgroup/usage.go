// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Usage holds the kernel's counters of a group.
type Usage struct {
	CPUNanos        uint64
	MemoryBytes     uint64 // all that is charged, page cache too
	InactiveBytes   uint64 // cache that can be dropped at once
	ActiveFileBytes uint64 // cache of files in use; it can be dropped, too
	LimitBytes      uint64 // zero without a limit
	MajorPageFaults uint64
	PageFaults      uint64
	Tasks           uint64
}

// WorkingSet returns the memory that cannot be reclaimed without harm.
func (u Usage) WorkingSet() uint64 {
	if u.InactiveBytes > u.MemoryBytes {
		return 0
	}
	return u.MemoryBytes - u.InactiveBytes
}

// unlimited is above any limit in use; version 1 shows "none" as a number near
// 2^63, version 2 as "max".
const unlimited = 1 << 60

// counter is the place of a number of a Usage: a file with only this number, or a
// line of a file ("inactive_file 4096").
type counter struct {
	to         *uint64
	controller string // whose hierarchy has the file; version 2 has one
	file, line string
	scale      uint64
}

func (u *Usage) countersV2() []counter {
	return []counter{
		{&u.CPUNanos, "cpu", "cpu.stat", "usage_usec", 1000},
		{&u.MemoryBytes, "memory", "memory.current", "", 1},
		{&u.LimitBytes, "memory", "memory.max", "", 1},
		{&u.Tasks, "pids", "pids.current", "", 1},
		{&u.InactiveBytes, "memory", "memory.stat", "inactive_file", 1},
		{&u.ActiveFileBytes, "memory", "memory.stat", "active_file", 1},
		{&u.PageFaults, "memory", "memory.stat", "pgfault", 1},
		{&u.MajorPageFaults, "memory", "memory.stat", "pgmajfault", 1},
	}
}

func (u *Usage) countersV1() []counter {
	return []counter{
		{&u.CPUNanos, "cpuacct", "cpuacct.usage", "", 1},
		{&u.MemoryBytes, "memory", "memory.usage_in_bytes", "", 1},
		{&u.LimitBytes, "memory", "memory.limit_in_bytes", "", 1},
		{&u.Tasks, "pids", "pids.current", "", 1},
		{&u.InactiveBytes, "memory", "memory.stat", "total_inactive_file", 1},
		{&u.ActiveFileBytes, "memory", "memory.stat", "total_active_file", 1},
		{&u.PageFaults, "memory", "memory.stat", "total_pgfault", 1},
		{&u.MajorPageFaults, "memory", "memory.stat", "total_pgmajfault", 1},
	}
}

// Usage reads the counters of the group, of which each hierarchy has some.
func (g Group) Usage() (Usage, error) {
	var u Usage
	counters := u.countersV1()
	if g.where.Unified {
		counters = u.countersV2()
	}
	files := map[string]string{} // the content of files already read
	var errs []error
	for _, c := range counters {
		path, err := g.file(c.controller, c.file)
		if err == nil && files[path] == "" {
			var text []byte
			text, err = os.ReadFile(path)
			files[path] = string(text)
		}
		if err == nil {
			*c.to, err = c.parse(files[path])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("read counters of cgroup: %w", err))
		}
	}
	if u.LimitBytes >= unlimited {
		u.LimitBytes = 0
	}
	return u, errors.Join(errs...)
}

// Events counts the refusals and kills by the limits of a group and of the groups
// below it.
type Events struct {
	RefusedTasks uint64 // processes and threads that were not started
	OOMKills     uint64 // processes that were killed because there was no memory left
}

// Events reads the counters. Version 1 counts an event where the process is, not in
// the group whose limit it was. A counter that the kernel does not have is zero.
func (g Group) Events() (Events, error) {
	var e Events
	memory := counter{&e.OOMKills, "memory", "memory.oom_control", "oom_kill", 1}
	if g.where.Unified {
		memory.file = "memory.events"
	}
	var errs []error
	for _, c := range []counter{memory, {&e.RefusedTasks, "pids", "pids.events", "max", 1}} {
		path, err := g.file(c.controller, c.file)
		var text []byte
		if err == nil {
			text, err = os.ReadFile(path)
		}
		if err == nil {
			*c.to, err = c.parse(string(text))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("read events of cgroup: %w", err))
		}
	}
	return e, errors.Join(errs...)
}

// file returns the path of a controller's file.
func (g Group) file(controller, name string) (string, error) {
	i := slices.IndexFunc(g.where.List, func(h Hierarchy) bool { return g.where.Unified || h.has(controller) })
	if i < 0 {
		return "", fmt.Errorf("no hierarchy has the controller %s", controller)
	}
	return filepath.Join(g.dir(g.where.List[i]), name), nil
}

// parse reads the counter from the content of its file. A missing line counts as
// zero: the lines depend on the kernel's configuration.
func (c counter) parse(text string) (uint64, error) {
	if c.line != "" {
		for l := range strings.Lines(text) {
			if f := strings.Fields(l); len(f) == 2 && f[0] == c.line {
				n, err := strconv.ParseUint(f[1], 10, 64)
				return n * c.scale, err
			}
		}
		return 0, nil
	}
	text = strings.TrimSpace(text)
	if text == "max" {
		return unlimited, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return n * c.scale, err
}
