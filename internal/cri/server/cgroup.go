// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroups reads and removes the cgroups of sandboxes, on machines with one
// hierarchy (version 2) and with many (version 1, hybrid or not). runc makes
// them.
type cgroups struct {
	mount  string
	parent string // of all sandboxes, below the root of each hierarchy
	// hierarchies are directories below mount; "" if there is only version 2.
	hierarchies []string
}

// podsDir keeps sandboxes apart from the host's own processes: version 2 has
// processes in leaves only.
const podsDir = "pods"

func openCgroups(mount, host string) cgroups {
	c := cgroups{mount: mount, parent: filepath.Join(host, podsDir)}
	if exists(filepath.Join(mount, "cgroup.controllers")) {
		c.hierarchies = []string{""}
		return c
	}
	entries, err := os.ReadDir(mount)
	if err != nil {
		return c // runc will say what is wrong
	}
	for _, e := range entries {
		// Links ("cpu" to "cpu,cpuacct") count: a controller is found by its name.
		if info, err := os.Stat(filepath.Join(mount, e.Name())); err == nil && info.IsDir() {
			c.hierarchies = append(c.hierarchies, e.Name())
		}
	}
	return c
}

// path is what runc is told.
func (c cgroups) path(sandbox, container string) string {
	return filepath.Join(c.parent, sandbox, container)
}

func (c cgroups) unified() bool { return len(c.hierarchies) == 1 && c.hierarchies[0] == "" }

// remove takes a sandbox's cgroups away. Nothing runs in them.
func (c cgroups) remove(sandbox string) error {
	for _, h := range c.hierarchies {
		if err := removeCgroup(filepath.Join(c.mount, h, c.parent, sandbox)); err != nil {
			return err
		}
	}
	return nil
}

// sandboxes lists those that have a cgroup somewhere.
func (c cgroups) sandboxes() []string {
	var out []string
	for _, h := range c.hierarchies {
		entries, err := os.ReadDir(filepath.Join(c.mount, h, c.parent))
		if err != nil {
			continue // not made yet
		}
		for _, e := range entries {
			if e.IsDir() {
				out = append(out, e.Name())
			}
		}
	}
	return out
}

// removeCgroup is rmdir of a tree: the files in it cannot be removed.
func removeCgroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeCgroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove cgroup %s: %w", dir, err)
	}
	return nil
}

// usage is what the kernel counts for a container.
type usage struct {
	cpuNanos        uint64
	memoryBytes     uint64 // all that is charged, page cache too
	inactiveBytes   uint64 // cache that can be dropped at once
	limitBytes      uint64 // zero if there is none
	majorPageFaults uint64
	pageFaults      uint64
	tasks           uint64
}

// unlimited is above any limit that anybody sets; version 1 shows "none" as a
// number near 2^63.
const unlimited = 1 << 60

// usage reads the counters of a container. They do not exist before it starts.
func (c cgroups) usage(sandbox, container string) (usage, error) {
	at := func(controller, file string) string {
		if c.unified() {
			controller = ""
		}
		return filepath.Join(c.mount, controller, c.path(sandbox, container), file)
	}
	var u usage
	var errs []error
	read := func(to *uint64, name string) {
		n, err := readNumber(name)
		errs = append(errs, err)
		*to = n
	}
	if c.unified() {
		cpu, err := readTable(at("", "cpu.stat"))
		errs = append(errs, err)
		u.cpuNanos = cpu["usage_usec"] * 1000
		read(&u.memoryBytes, at("", "memory.current"))
		read(&u.limitBytes, at("", "memory.max"))
		read(&u.tasks, at("", "pids.current"))
		mem, err := readTable(at("", "memory.stat"))
		errs = append(errs, err)
		u.inactiveBytes, u.pageFaults, u.majorPageFaults = mem["inactive_file"], mem["pgfault"], mem["pgmajfault"]
	} else {
		read(&u.cpuNanos, at("cpuacct", "cpuacct.usage"))
		read(&u.memoryBytes, at("memory", "memory.usage_in_bytes"))
		read(&u.limitBytes, at("memory", "memory.limit_in_bytes"))
		read(&u.tasks, at("pids", "pids.current"))
		mem, err := readTable(at("memory", "memory.stat"))
		errs = append(errs, err)
		u.inactiveBytes, u.pageFaults, u.majorPageFaults = mem["total_inactive_file"], mem["total_pgfault"], mem["total_pgmajfault"]
	}
	if u.limitBytes >= unlimited {
		u.limitBytes = 0
	}
	return u, errors.Join(errs...)
}

// workingSet is what could not be dropped without hurting the container.
func (u usage) workingSet() uint64 {
	if u.inactiveBytes > u.memoryBytes {
		return 0
	}
	return u.memoryBytes - u.inactiveBytes
}

func readNumber(name string) (uint64, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	text := strings.TrimSpace(string(data))
	if text == "max" {
		return unlimited, nil
	}
	return strconv.ParseUint(text, 10, 64)
}

// readTable reads lines of a name and a number.
func readTable(name string) (map[string]uint64, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	out := map[string]uint64{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if k, v, ok := strings.Cut(lines.Text(), " "); ok {
			if n, err := strconv.ParseUint(v, 10, 64); err == nil {
				out[k] = n
			}
		}
	}
	return out, lines.Err()
}
