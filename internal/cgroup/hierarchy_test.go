// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cgroup

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Mountinfo of machines, shortened to what matters.
const (
	unified = `30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate
`
	hybrid = `31 24 0:27 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
32 31 0:28 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw,nsdelegate
33 31 0:29 / /sys/fs/cgroup/systemd rw shared:11 - cgroup cgroup rw,xattr,name=systemd
36 31 0:32 / /sys/fs/cgroup/cpu,cpuacct rw shared:15 - cgroup cgroup rw,cpu,cpuacct
37 31 0:33 / /sys/fs/cgroup/memory rw shared:16 - cgroup cgroup rw,memory
`
	// version1 has a hierarchy for each controller.
	version1 = `31 24 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
32 24 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
33 24 0:33 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct
34 24 0:34 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
35 24 0:35 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
`
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, mountinfo string
		unified         bool
		want            string
	}{
		{"version 2 (Ubuntu 24.04, Debian 12)", unified, true, `[{"dir":".","options":""}]`},
		{
			"hybrid (systemd)", hybrid, false,
			`[{"dir":"unified","options":""},{"dir":"systemd","options":"none,name=systemd"},` +
				`{"dir":"cpu,cpuacct","options":"cpu,cpuacct"},{"dir":"memory","options":"memory"}]`,
		},
		{
			"inside of a container, one part only",
			"30 24 0:26 /a/b /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n" +
				"31 24 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n",
			false, `[{"dir":"pids","options":"pids"}]`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hs, err := parse(tt.mountinfo)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(hs.List)
			if err != nil || string(got) != tt.want || hs.Unified != tt.unified {
				t.Errorf("%s unified=%v, %v; want %s unified=%v", got, hs.Unified, err, tt.want, tt.unified)
			}
		})
	}
	if _, err := parse("1 2 0:1 / / rw - ext4 /dev/sda rw\n"); err == nil {
		t.Error("a machine without cgroups was accepted")
	}
}

func TestLacking(t *testing.T) {
	v1 := []Hierarchy{{Dir: "cpu", Options: "cpu,cpuacct"}, {Dir: "pids", Options: "pids"}, {Dir: "unified"}}
	for name, tt := range map[string]struct {
		hs          Hierarchies
		controllers string // of version 2
		want        []string
	}{
		"hybrid":                {hs: Hierarchies{List: v1}, want: []string{"memory"}},
		"v2":                    {hs: Hierarchies{Unified: true}, controllers: "cpuset cpu io memory pids rdma\n"},
		"v2 without delegation": {hs: Hierarchies{Unified: true}, want: []string{"cpu", "memory", "pids"}},
		"v2 with a part":        {hs: Hierarchies{Unified: true}, controllers: "memory pids\n", want: []string{"cpu"}},
	} {
		mount := t.TempDir()
		if err := os.WriteFile(filepath.Join(mount, "cgroup.controllers"), []byte(tt.controllers), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := tt.hs.Lacking(mount); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, tt.want)
		}
	}
	if _, err := (Hierarchies{Unified: true}).Lacking(t.TempDir()); err == nil {
		t.Error("no file of controllers, and no error")
	}
}
