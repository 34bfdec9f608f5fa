// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mount is where every distribution mounts its cgroup file systems.
const Mount = "/sys/fs/cgroup"

// Hierarchies are the cgroup file systems of a machine: one (version 2), or
// several beside each other (version 1 or hybrid).
type Hierarchies struct {
	Unified bool        `json:"unified"` // version 2 only
	List    []Hierarchy `json:"list"`
}

// Hierarchy is one mounted cgroup file system.
type Hierarchy struct {
	Dir string `json:"dir"` // below Mount; "." if it is the only one
	// Options to mount it again: "memory", "none,name=systemd"; "" for version 2.
	Options string `json:"options"`
}

// V2 reports whether the hierarchy is version 2.
func (h Hierarchy) V2() bool { return h.Options == "" }

// has reports whether a version 1 hierarchy has the controller.
func (h Hierarchy) has(controller string) bool {
	return slices.Contains(strings.Split(h.Options, ","), controller)
}

// Find returns the hierarchies that are mounted below Mount.
func Find() (Hierarchies, error) {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Hierarchies{}, fmt.Errorf("find cgroups: %w", err)
	}
	return parse(string(mountinfo))
}

// parse finds the hierarchies in the content of /proc/self/mountinfo (proc(5)).
// A mount of a part of a hierarchy does not count: it belongs to a container.
func parse(mountinfo string) (Hierarchies, error) {
	var hs Hierarchies
	for line := range strings.Lines(mountinfo) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 || (r[0] != "cgroup" && r[0] != "cgroup2") || l[3] != "/" {
			continue
		}
		dir, err := filepath.Rel(Mount, l[4])
		if err != nil || strings.HasPrefix(dir, "..") {
			continue
		}
		h := Hierarchy{Dir: dir}
		if r[0] == "cgroup" {
			h.Options = mountOptions(r[2])
		}
		hs.List = append(hs.List, h)
		hs.Unified = hs.Unified || dir == "."
	}
	if len(hs.List) == 0 {
		return hs, errors.New("find cgroups: none are mounted below " + Mount)
	}
	if hs.Unified {
		hs.List = slices.DeleteFunc(hs.List, func(h Hierarchy) bool { return h.Dir != "." })
	}
	return hs, nil
}

// Lacking returns the controllers that limits of pods need and the hierarchies mounted below mount do not have.
func (hs Hierarchies) Lacking(mount string) ([]string, error) {
	var have []string
	for _, h := range hs.List {
		have = append(have, strings.Split(h.Options, ",")...)
	}
	if hs.Unified {
		var err error
		if have, err = controllersOf(mount); err != nil {
			return nil, fmt.Errorf("read controllers of cgroups: %w", err)
		}
	}
	return slices.DeleteFunc([]string{"cpu", "memory", "pids"}, func(c string) bool {
		return slices.Contains(have, c)
	}), nil
}

// mountOptions returns the options of a version 1 hierarchy that name it.
func mountOptions(all string) string {
	options := slices.DeleteFunc(strings.Split(all, ","), func(o string) bool {
		return slices.Contains([]string{"rw", "ro", "xattr", "clone_children"}, o) ||
			strings.HasPrefix(o, "release_agent=")
	})
	if len(options) == 1 && strings.HasPrefix(options[0], "name=") {
		options = []string{"none", options[0]}
	}
	return strings.Join(options, ",")
}
