// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupMount is where every distribution has its cgroups.
const cgroupMount = "/sys/fs/cgroup"

// hierarchies are the cgroup file systems of a machine: one (version 2), or
// several beside each other (version 1, "hybrid" if one of them is version 2).
type hierarchies struct {
	Unified bool        `json:"unified"` // version 2 only
	List    []hierarchy `json:"list"`
}

// hierarchy is one mounted cgroup file system.
type hierarchy struct {
	Dir string `json:"dir"` // below cgroupMount; "." if it is the only one
	// Options to mount it again: "memory", "none,name=systemd"; "" for version 2.
	Options string `json:"options"`
}

func (h hierarchy) v2() bool { return h.Options == "" }

func (h hierarchy) has(controller string) bool {
	return slices.Contains(strings.Split(h.Options, ","), controller)
}

// parseHierarchies reads /proc/self/mountinfo (proc(5)).
func parseHierarchies(mountinfo string) (hierarchies, error) {
	var hs hierarchies
	for line := range strings.Lines(mountinfo) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 || (r[0] != "cgroup" && r[0] != "cgroup2") || l[3] != "/" {
			continue
		}
		dir, err := filepath.Rel(cgroupMount, l[4])
		if err != nil || strings.HasPrefix(dir, "..") {
			continue
		}
		h := hierarchy{Dir: dir}
		if r[0] == "cgroup" {
			options := slices.DeleteFunc(strings.Split(r[2], ","), func(o string) bool {
				return o == "rw" || o == "ro" || o == "xattr" || o == "clone_children" || strings.HasPrefix(o, "release_agent=")
			})
			if len(options) == 1 && strings.HasPrefix(options[0], "name=") {
				options = []string{"none", options[0]}
			}
			h.Options = strings.Join(options, ",")
		}
		hs.List = append(hs.List, h)
		hs.Unified = hs.Unified || dir == "."
	}
	if len(hs.List) == 0 {
		return hs, errors.New("find cgroups: none are mounted below " + cgroupMount)
	}
	if hs.Unified {
		hs.List = slices.DeleteFunc(hs.List, func(h hierarchy) bool { return h.Dir != "." })
	}
	return hs, nil
}

// cgroup is a host's cgroup in every hierarchy: /mullion/CLUSTER/NODE.
type cgroup struct {
	root  string // cgroupMount; tests put it elsewhere
	where hierarchies
	path  string // "mullion/CLUSTER/NODE"
}

func newCgroup(c Config, hs hierarchies) cgroup {
	return cgroup{root: cgroupMount, where: hs, path: filepath.Join("mullion", c.Cluster, c.Name)}
}

func (g cgroup) dir(h hierarchy) string { return filepath.Join(g.root, h.Dir, g.path) }

// controllers that a host's containers use.
func controllers() []string { return []string{"cpuset", "cpu", "io", "memory", "pids"} }

// Create makes the cgroup with its limits.
func (g cgroup) Create(l Limits) error {
	for _, h := range g.where.List {
		if err := g.create(h, l); err != nil {
			return fmt.Errorf("make cgroup: %w", err)
		}
	}
	return nil
}

func (g cgroup) create(h hierarchy, l Limits) error {
	parent := filepath.Join(g.root, h.Dir)
	for step := range strings.SplitSeq(g.path, "/") {
		if h.v2() {
			if err := enable(parent); err != nil {
				return err
			}
		}
		dir := filepath.Join(parent, step)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if h.has("cpuset") {
			// Nothing may enter a cpuset before these two are set.
			for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
				if err := inherit(parent, dir, f); err != nil {
					return err
				}
			}
		}
		parent = dir
	}
	return limit(h, parent, l)
}

// inherit copies a setting of the parent if the child has none.
func inherit(parent, child, file string) error {
	have, err := os.ReadFile(filepath.Join(child, file))
	if err != nil || len(strings.TrimSpace(string(have))) > 0 {
		return err
	}
	value, err := os.ReadFile(filepath.Join(parent, file))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(child, file), value, 0)
}

// enable gives the children of a version 2 cgroup the controllers that it has.
func enable(dir string) error {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for c := range strings.FieldsSeq(string(have)) {
		if !slices.Contains(controllers(), c) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("enable controller %s: %w", c, err)
		}
	}
	return nil
}

// cpuPeriod is the kernel's default, in microseconds.
const cpuPeriod = 100_000

func limit(h hierarchy, dir string, l Limits) error {
	set := func(file, value string) error {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
			return fmt.Errorf("set %s: %w", file, err)
		}
		return nil
	}
	var errs []error
	if l.MemoryBytes > 0 {
		switch {
		case h.v2() && g2has(dir, "memory"):
			errs = append(errs, set("memory.max", strconv.FormatInt(l.MemoryBytes, 10)))
		case h.has("memory"):
			errs = append(errs, set("memory.limit_in_bytes", strconv.FormatInt(l.MemoryBytes, 10)))
		}
	}
	if l.MilliCPU > 0 {
		quota := strconv.FormatInt(l.MilliCPU*cpuPeriod/1000, 10)
		switch {
		case h.v2() && g2has(dir, "cpu"):
			errs = append(errs, set("cpu.max", quota+" "+strconv.Itoa(cpuPeriod)))
		case h.has("cpu"):
			errs = append(errs, set("cpu.cfs_quota_us", quota))
		}
	}
	if l.Processes > 0 && (h.has("pids") || h.v2() && g2has(dir, "pids")) {
		errs = append(errs, set("pids.max", strconv.FormatInt(l.Processes, 10)))
	}
	return errors.Join(errs...)
}

// g2has says whether a version 2 cgroup has the controller. In hybrid machines
// it usually has none.
func g2has(dir, controller string) bool {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	return err == nil && slices.Contains(strings.Fields(string(have)), controller)
}

// Add moves a process into the cgroup.
func (g cgroup) Add(pid int) error {
	for _, h := range g.where.List {
		if err := os.WriteFile(filepath.Join(g.dir(h), "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("move process into cgroup: %w", err)
		}
	}
	return nil
}

// Clear kills whatever is in the cgroup and deletes it. The last processes may
// take a moment to leave; limit bounds the patience.
func (g cgroup) Clear(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	for {
		g.kill()
		err := g.remove()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// kill sends SIGKILL to all processes of the cgroup. All hierarchies hold the
// same ones; asking each finds those that are on their way from one to another.
func (g cgroup) kill() {
	for _, h := range g.where.List {
		// What cannot be read is gone.
		_ = filepath.WalkDir(g.dir(h), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil
			}
			procs, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			if err != nil {
				return nil
			}
			for f := range strings.FieldsSeq(string(procs)) {
				if pid, err := strconv.Atoi(f); err == nil && pid > 1 {
					_ = unix.Kill(pid, unix.SIGKILL)
				}
			}
			return nil
		})
	}
}

// remove deletes the cgroup and all below it, and the directories above if they
// have become empty.
func (g cgroup) remove() error {
	var errs []error
	for _, h := range g.where.List {
		errs = append(errs, removeTree(g.dir(h)))
		for up := filepath.Dir(g.path); up != "."; up = filepath.Dir(up) {
			// It is in use by other hosts, or gone.
			if unix.Rmdir(filepath.Join(g.root, h.Dir, up)) != nil {
				break
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	return nil
}

// removeTree removes cgroups from the leaves up. The files in them cannot be
// and need not be removed.
func removeTree(dir string) error {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// settle makes room for containers inside of the host's own view, where its
// cgroup is the root: processes move to a leaf, because version 2 allows none
// beside children with controllers.
func settle(hs hierarchies, pid int) error {
	for _, h := range hs.List {
		top := filepath.Join(cgroupMount, h.Dir)
		for _, child := range []string{"init", podsCgroup} {
			dir := filepath.Join(top, child)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("make cgroup: %w", err)
			}
			if h.has("cpuset") {
				for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
					if err := inherit(top, dir, f); err != nil {
						return fmt.Errorf("make cgroup: %w", err)
					}
				}
			}
		}
		if err := os.WriteFile(filepath.Join(top, "init", "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("move into cgroup: %w", err)
		}
		if h.v2() {
			if err := errors.Join(enable(top), enable(filepath.Join(top, podsCgroup))); err != nil {
				return fmt.Errorf("make cgroup: %w", err)
			}
		}
	}
	return nil
}
