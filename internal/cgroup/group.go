// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cgroup

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
	"syscall"
	"time"

	"github.com/mullion-k8s/mullion/internal/supervise"
)

// Group is a cgroup: the directory of one path in every hierarchy. It need not
// exist.
type Group struct {
	mount string // Mount; tests put it elsewhere
	where Hierarchies
	path  string // without a leading slash; "" is the root
}

// Group returns the group at a path from the root of each hierarchy.
func (hs Hierarchies) Group(path string) Group {
	return Group{Mount, hs, strings.Trim(filepath.Clean("/"+path), "/")}
}

// Child returns a group directly below g.
func (g Group) Child(name string) Group {
	g.path = filepath.Join(g.path, name)
	return g
}

// Path returns the group's path from the root of each hierarchy, with a leading
// slash.
func (g Group) Path() string { return "/" + g.path }

func (g Group) dir(h Hierarchy) string { return filepath.Join(g.mount, h.Dir, g.path) }

// Make makes the group, and the groups above it, and sets its limits. A group that
// exists gets the limits.
func (g Group) Make(l Limits) error {
	for _, h := range g.where.List {
		if err := g.do(makeSteps(h, g.path, l)); err != nil {
			return fmt.Errorf("make cgroup: %w", err)
		}
	}
	return nil
}

// Allow lets the group's processes use only the listed devices, each in the words of
// the devices controller ("c 1:3 rwm"). An empty list has no effect.
func (g Group) Allow(devices []string) error {
	for _, h := range g.where.List {
		if err := g.do(deviceSteps(g.where, h, g.path, devices)); err != nil {
			return fmt.Errorf("limit devices of cgroup: %w", err)
		}
	}
	return nil
}

// Enter moves a process into the group.
func (g Group) Enter(pid int) error {
	for _, h := range g.where.List {
		if err := g.do([]step{enterStep(h, g.path, pid)}); err != nil {
			return fmt.Errorf("move process into cgroup: %w", err)
		}
	}
	return nil
}

// Split makes two children of a group that has one process: leaf, which gets the
// process, and inner, which can have further groups. Version 2 allows processes
// in leaves only.
func (g Group) Split(leaf, inner string, pid int) error {
	for _, h := range g.where.List {
		if err := g.do(splitSteps(h, g.path, leaf, inner, pid)); err != nil {
			return fmt.Errorf("split cgroup: %w", err)
		}
	}
	return nil
}

// Children returns the names of the groups directly below g, in any hierarchy.
func (g Group) Children() []string {
	var out []string
	for _, h := range g.where.List {
		entries, err := os.ReadDir(g.dir(h))
		if err != nil {
			continue // not made yet
		}
		for _, e := range entries {
			if e.IsDir() && !slices.Contains(out, e.Name()) {
				out = append(out, e.Name())
			}
		}
	}
	return out
}

// clearPoll is how often Clear tries: a killed process leaves its group within
// milliseconds, unless it frees much memory.
const clearPoll = 10 * time.Millisecond

// Clear kills the processes in the group, removes it, and then removes the groups
// above it that have become empty. It tries until the time limit, even if the
// context is cancelled.
func (g Group) Clear(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err := supervise.Await(ctx, nil, clearPoll, func() error {
		g.kill()
		return g.Remove()
	})
	if err == nil {
		g.prune()
	}
	return err
}

// kill sends SIGKILL to all processes in the group and in the groups below it.
// All hierarchies hold the same processes; checking each also finds processes
// that are being moved.
func (g Group) kill() {
	for _, h := range g.where.List {
		// A group that cannot be read is gone.
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
					_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
				}
			}
			return nil
		})
	}
}

// Remove removes the group and all below it. There must be no process in them.
func (g Group) Remove() error {
	var errs []error
	for _, h := range g.where.List {
		errs = append(errs, removeTree(g.dir(h)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	return nil
}

// prune removes empty groups above g.
func (g Group) prune() {
	for _, h := range g.where.List {
		for up := filepath.Dir(g.path); up != "."; up = filepath.Dir(up) {
			// An error means that the group is in use or gone.
			if syscall.Rmdir(filepath.Join(g.mount, h.Dir, up)) != nil {
				break
			}
		}
	}
}

// removeTree removes groups from the leaves up. The files in them cannot be and
// need not be removed.
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
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// do performs the steps, up to the first that fails.
func (g Group) do(steps []step) error {
	for _, s := range steps {
		path := filepath.Join(g.mount, s.path)
		var err error
		switch s.op {
		case mkdir:
			if err = os.Mkdir(path, 0o755); errors.Is(err, fs.ErrExist) {
				err = nil
			}
		case inherit:
			err = inheritFile(path)
		case enable:
			err = enableControllers(path)
		case write:
			if _, missing := os.Stat(path); s.optional && missing != nil {
				continue
			}
			err = writeFile(path, s.text, s.needs)
		case confine:
			err = limitDevices(path, s.devices)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// writeFile sets a file of a group, if the group has the controller needed.
func writeFile(path, text, needs string) error {
	if needs != "" {
		have, err := controllersOf(filepath.Dir(path))
		if err != nil || !slices.Contains(have, needs) {
			return err
		}
	}
	return os.WriteFile(path, []byte(text), 0)
}

// inheritFile copies a file of the parent group if the group's own is empty.
func inheritFile(path string) error {
	have, err := os.ReadFile(path)
	if err != nil || len(strings.TrimSpace(string(have))) > 0 {
		return err
	}
	value, err := os.ReadFile(filepath.Join(filepath.Dir(path), "..", filepath.Base(path)))
	if err != nil {
		return err
	}
	return os.WriteFile(path, value, 0)
}

// enableControllers enables the group's controllers for its children (version 2).
// It writes them one by one: the kernel rejects the whole line if it rejects one
// controller.
func enableControllers(dir string) error {
	have, err := controllersOf(dir)
	if err != nil {
		return err
	}
	for _, c := range have {
		if !slices.Contains(controllers(), c) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("controller %s: %w", c, err)
		}
	}
	return nil
}

// controllersOf returns the controllers of a version 2 group.
func controllersOf(dir string) ([]string, error) {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	return strings.Fields(string(have)), err
}
