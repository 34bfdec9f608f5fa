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
	limits := Limits{MemoryBytes: 256 << 20, MilliCPU: 1500, CPUShares: 512, Processes: 100}
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

func TestWeight(t *testing.T) {
	for shares, want := range map[int64]int64{0: 1, 2: 1, 1024: 39, 262144: 10000} {
		if got := weight(shares); got != want {
			t.Errorf("%d shares are weight %d, want %d", shares, got, want)
		}
	}
}
