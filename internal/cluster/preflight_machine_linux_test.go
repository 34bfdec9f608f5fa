// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestCheckCgroups has a machine of each kind, and each without something.
func TestCheckCgroups(t *testing.T) {
	v1 := func(options ...string) (hs cgroup.Hierarchies) {
		for _, o := range options {
			hs.List = append(hs.List, cgroup.Hierarchy{Dir: ".", Options: o})
		}
		return hs
	}
	hybrid := v1("cpu,cpuacct", "memory", "pids", "none,name=systemd")
	hybrid.List = append(hybrid.List, cgroup.Hierarchy{Dir: "."})
	for name, tt := range map[string]struct {
		hs            cgroup.Hierarchies
		err           error
		want, advises string
	}{
		"v1":                {hs: v1("cpu,cpuacct", "memory", "pids")},
		"v1 without memory": {hs: v1("cpu", "pids"), want: "controller for memory,", advises: "cgroup_disable"},
		"hybrid":            {hs: hybrid},
		"none":              {err: errors.New("find cgroups: none"), want: "none", advises: "systemd"},
	} {
		wantMissing(t, name, checkCgroups(t.TempDir(), tt.hs, tt.err), tt.want, tt.advises)
	}
	wantMissing(t, "v2", checkControllers(nil, true), "", "")
	wantMissing(t, "v2 without delegation", checkControllers([]string{"memory", "pids"}, true),
		"controller for memory, pids,", "Delegate=yes")
	hs, err := cgroup.Find()
	wantMissing(t, "this machine", checkCgroups(cgroup.Mount, hs, err), "", "")
}

// wantMissing compares an error with parts of it and of its hint; "" is no error.
func wantMissing(t *testing.T, name string, err error, want, advises string) {
	t.Helper()
	m, missing := errors.AsType[*Missing](err)
	if (err != nil) != (want != "") || missing && (!strings.Contains(m.What, want) || !strings.Contains(m.Hint,
		advises)) ||
		err != nil && !missing {
		t.Errorf("%s: %+v, %v; want %q, hint %q", name, m, err, want, advises)
	}
}

// TestMissingPrograms: each program that is missing is named with the package that has it.
func TestMissingPrograms(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	text := ""
	cfg := Config{Linux: 1}
	for _, err := range Preflight(Binaries(t.TempDir()), cfg, true).(interface{ Unwrap() []error }).Unwrap() {
		if m, ok := errors.AsType[*Missing](err); ok {
			text += m.What + ": " + m.Hint + "\n"
		}
	}
	for _, want := range []string{"nft is not installed: apt-get install nftables\n",
		"runc is not installed: apt-get install runc\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// TestMissingLinuxPrograms: only a Linux worker needs its programs, which `make up` builds last.
func TestMissingLinuxPrograms(t *testing.T) {
	without, with := Config{Windows: []string{"2022"}}, Config{Windows: []string{"2022"}, Linux: 1}
	none := Binaries(t.TempDir())
	for _, tc := range []struct {
		what string
		err  error
		want bool
	}{
		{"a cluster without", Preflight(none, without, true), false},
		{"a cluster with", Preflight(none, with, true), true},
		{"one more Windows host", FitsOneMore(none, Size{}, false), false},
		{"one more worker", FitsOneMore(none, Size{}, true), true},
	} {
		if got := strings.Contains(fmt.Sprint(tc.err), "linux/containerd is missing"); got != tc.want {
			t.Errorf("%s: asks for the programs: %v, want %v: %v", tc.what, got, tc.want, tc.err)
		}
	}
}

func TestReadOnlyCgroups(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	hs := cgroup.Hierarchies{Unified: true, List: []cgroup.Hierarchy{{Dir: "."}}}
	wantMissing(t, "read-only", checkCgroups(dir, hs, nil), "is read-only", "--privileged")
}

// TestCheckWatches counts when there is no descriptor left, which is the error of a user's limit, too.
func TestCheckWatches(t *testing.T) {
	if err := checkWatches(14); err != nil {
		t.Fatal(err)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	lowest, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer lowest.Close()
	few := unix.Rlimit{Cur: uint64(lowest.Fd()) + 4, Max: old.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	err = checkWatches(14)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	wantMissing(t, "a used-up limit", err, "more inotify instances (fs.inotify.max_user_instances)", "sysctl -w fs.ino")
	if err := checkWatches(14); err != nil {
		t.Errorf("instances are not returned: %v", err)
	}
}
