// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cgroup

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestSteps checks the steps for a host's cgroup on each kind of machine.
func TestSteps(t *testing.T) {
	limits := Limits{CPUs: "0-1", MemoryBytes: 256 << 20, MilliCPU: 1500, CPUShares: 512, Processes: 100}
	for name, mountinfo := range map[string]string{"unified": unified, "hybrid": hybrid, "version1": version1} {
		t.Run(name, func(t *testing.T) {
			hs, err := parse(mountinfo)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			section := func(title string, describe func(Hierarchy) []step) {
				fmt.Fprintf(&b, "-- %s --\n", title)
				for _, h := range hs.List {
					for _, s := range describe(h) {
						fmt.Fprintln(&b, s)
					}
				}
			}
			path := "mullion/c/win-1"
			section("make", func(h Hierarchy) []step { return makeSteps(h, path, limits) })
			section("make without limits", func(h Hierarchy) []step { return makeSteps(h, path, Limits{}) })
			section("enter", func(h Hierarchy) []step { return []step{enterStep(h, path, 42)} })
			section("split", func(h Hierarchy) []step { return splitSteps(h, "", "init", "pods", 42) })
			testenv.Golden(t, name+".txt", []byte(b.String()))
		})
	}
}

// TestDeviceSteps: all devices are taken away before some are given back. Version 2 does it only where
// no hierarchy of version 1 does.
func TestDeviceSteps(t *testing.T) {
	v1, v2, other := Hierarchy{Dir: "devices", Options: "devices"}, Hierarchy{Dir: "unified"},
		Hierarchy{Dir: "memory", Options: "memory"}
	list := []string{"c 1:3 rwm", "c 136:* rwm"}
	for _, c := range []struct {
		of   Hierarchy
		all  []Hierarchy
		want string
	}{
		{v1, []Hierarchy{v1, v2}, "[write devices/mullion/c/linux-1/devices.deny a " +
			"write devices/mullion/c/linux-1/devices.allow c 1:3 rwm " +
			"write devices/mullion/c/linux-1/devices.allow c 136:* rwm]"},
		{v2, []Hierarchy{v1, v2}, "[]"},
		{v2, []Hierarchy{other, v2}, "[confine devices unified/mullion/c/linux-1 to c 1:3 rwm, c 136:* rwm]"},
		{other, []Hierarchy{other, v2}, "[]"},
	} {
		got := fmt.Sprint(deviceSteps(Hierarchies{List: c.all}, c.of, "mullion/c/linux-1", list))
		if got != c.want {
			t.Errorf("%+v of %+v: %s, want %s", c.of, c.all, got, c.want)
		}
		if got := deviceSteps(Hierarchies{List: c.all}, c.of, "x", nil); got != nil {
			t.Errorf("without a list: %v", got)
		}
	}
}

func TestWeight(t *testing.T) {
	for shares, want := range map[int64]int64{0: 1, 2: 1, 1024: 39, 262144: 10000} {
		if got := weight(shares); got != want {
			t.Errorf("%d shares are weight %d, want %d", shares, got, want)
		}
	}
}
