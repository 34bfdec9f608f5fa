// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// inDirectory returns a group in an ordinary directory, of a machine with these
// mounts.
func inDirectory(t *testing.T, mountinfo, path string) Group {
	t.Helper()
	hs, err := parse(mountinfo)
	if err != nil {
		t.Fatal(err)
	}
	g := hs.Group(path)
	g.mount = t.TempDir()
	return g
}

// put writes files below the mount point of a group.
func put(t *testing.T, g Group, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(g.mount, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPath(t *testing.T) {
	hs := Hierarchies{List: []Hierarchy{{Dir: "pids", Options: "pids"}}}
	for _, tt := range []struct {
		g    Group
		want string
	}{
		{hs.Group("/"), "/"},
		{hs.Group("a/b"), "/a/b"},
		{hs.Group("/a/../b/"), "/b"},
		{hs.Group("/").Child("pods").Child("x"), "/pods/x"},
	} {
		if got := tt.g.Path(); got != tt.want {
			t.Errorf("path %q, want %q", got, tt.want)
		}
	}
	if got := hs.Group("/a").dir(hs.List[0]); got != "/sys/fs/cgroup/pids/a" {
		t.Errorf("directory %s", got)
	}
}

func TestUsage(t *testing.T) {
	stat := "anon 1\n%sinactive_file 1000\n%sactive_file 200\n%spgfault 7\n%spgmajfault 3\n"
	for _, tt := range []struct {
		name, mountinfo string
		files           map[string]string
		want            Usage
	}{
		{"version 2", unified, map[string]string{
			"pods/a/cpu.stat":       "usage_usec 2000\nuser_usec 1500\n",
			"pods/a/memory.current": "5000\n",
			"pods/a/memory.max":     "max\n",
			"pods/a/pids.current":   "4\n",
			"pods/a/memory.stat":    strings.ReplaceAll(stat, "%s", ""),
		}, Usage{
			CPUNanos:        2_000_000,
			MemoryBytes:     5000,
			InactiveBytes:   1000,
			ActiveFileBytes: 200,
			MajorPageFaults: 3,
			PageFaults:      7,
			Tasks:           4,
		}},
		{"version 1", version1, map[string]string{
			"cpuacct/pods/a/cpuacct.usage":        "2000\n",
			"memory/pods/a/memory.usage_in_bytes": "5000\n",
			"memory/pods/a/memory.limit_in_bytes": "8000\n",
			"pids/pods/a/pids.current":            "4\n",
			"memory/pods/a/memory.stat":           "inactive_file 1\n" + strings.ReplaceAll(stat, "%s", "total_"),
		}, Usage{
			CPUNanos:        2000,
			MemoryBytes:     5000,
			InactiveBytes:   1000,
			ActiveFileBytes: 200,
			LimitBytes:      8000,
			MajorPageFaults: 3,
			PageFaults:      7,
			Tasks:           4,
		}},
		{"version 1 without a limit", version1, map[string]string{
			"cpuacct/pods/a/cpuacct.usage":        "0\n",
			"memory/pods/a/memory.usage_in_bytes": "0\n",
			"memory/pods/a/memory.limit_in_bytes": "9223372036854771712\n",
			"pids/pods/a/pids.current":            "0\n",
			"memory/pods/a/memory.stat":           "\n",
		}, Usage{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := inDirectory(t, tt.mountinfo, "/pods/a")
			if _, err := g.Usage(); err == nil {
				t.Error("counters of a group that does not exist")
			}
			put(t, g, tt.files)
			if got, err := g.Usage(); err != nil || got != tt.want {
				t.Errorf("%+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
	if _, err := inDirectory(t, hybrid, "/pods/a").Usage(); err == nil || !strings.Contains(err.Error(), "pids") {
		t.Errorf("a machine without the pids controller: %v", err)
	}
}

func TestWorkingSet(t *testing.T) {
	for _, tt := range []struct{ all, inactive, want uint64 }{{10, 4, 6}, {4, 10, 0}} {
		if got := (Usage{MemoryBytes: tt.all, InactiveBytes: tt.inactive}).WorkingSet(); got != tt.want {
			t.Errorf("working set %d, want %d", got, tt.want)
		}
	}
}

func TestEvents(t *testing.T) {
	for name, tt := range map[string]struct {
		mountinfo string
		files     map[string]string
	}{
		"version 2": {unified, map[string]string{
			"a/memory.events": "low 0\noom 9\noom_kill 2\n",
			"a/pids.events":   "max 7\n",
		}},
		"version 1": {version1, map[string]string{
			"memory/a/memory.oom_control": "under_oom 0\noom_kill 2\n",
			"pids/a/pids.events":          "max 7\n",
		}},
	} {
		g := inDirectory(t, tt.mountinfo, "/a")
		if got, err := g.Events(); err != nil || got != (Events{}) {
			t.Errorf("%s, without files: %+v, %v", name, got, err)
		}
		put(t, g, tt.files)
		if got, err := g.Events(); err != nil || got != (Events{RefusedTasks: 7, OOMKills: 2}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestOnlyItsControllersAreUsed: version 2 groups of hybrid machines have few.
func TestOnlyItsControllersAreUsed(t *testing.T) {
	g := inDirectory(t, unified, "/a")
	put(t, g, map[string]string{"cgroup.controllers": "cpuset memory rdma\n", "a/cgroup.controllers": "memory\n"})
	if err := g.Make(Limits{MemoryBytes: 4096, MilliCPU: 1000, Processes: 10}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"cgroup.subtree_control": "+memory",
		"a/memory.max":           "4096",
		"a/cpu.max":              "", // not written
		"a/pids.max":             "",
	} {
		got, err := os.ReadFile(filepath.Join(g.mount, name))
		if want == "" && err == nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

// TestGroup makes, uses and clears a real cgroup with limits and a process.
func TestGroup(t *testing.T) {
	testenv.Need(t, testenv.Root)
	hs, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	above := hs.Group("/mullion/test-" + filepath.Base(filepath.Dir(t.TempDir()))[:9])
	g := above.Child("host")
	if err := g.Make(Limits{MemoryBytes: 256 << 20, MilliCPU: 1500, Processes: 100}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		// The kernel needs a moment for a process that was killed.
		if err := g.Clear(t.Context(), 5*time.Second); err != nil {
			t.Error(err)
		}
		for _, h := range hs.List {
			if _, err := os.Stat(above.dir(h)); err == nil {
				t.Errorf("%s is still there", above.dir(h))
			}
		}
	}()
	if got := above.Children(); !slices.Equal(got, []string{"host"}) {
		t.Errorf("children %v", got)
	}
	sleep := exec.Command("sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Enter(sleep.Process.Pid); err != nil {
		t.Error(err)
	}
	if err := g.Make(Limits{}); err != nil {
		t.Errorf("a cgroup that exists: %v", err)
	}
	for _, mib := range []int64{512, 256} { // more, then less
		if err := g.Make(Limits{MemoryBytes: mib << 20, CPUShares: 512}); err != nil {
			t.Errorf("another limit of memory: %v", err)
		}
	}
	if e, err := g.Events(); err != nil || e != (Events{}) {
		t.Errorf("events %+v, %v", e, err)
	}
	if u, err := g.Usage(); err != nil || u.LimitBytes != 256<<20 || u.Tasks != 1 {
		t.Errorf("usage %+v, %v", u, err)
	}
	if err := above.Remove(); err == nil {
		t.Error("a cgroup with a process in it was removed")
	}
	g.kill()
	if err := sleep.Wait(); err == nil {
		t.Error("the process was not killed")
	}
}
