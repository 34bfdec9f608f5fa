// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestSizeFiles shows the files of a host of two processors on a machine of four.
func TestSizeFiles(t *testing.T) {
	var cpuinfo strings.Builder
	for i := range 4 {
		fmt.Fprintf(&cpuinfo, "processor\t: %d\nmodel name\t: x\nprocessor type\t: 7\n\n", i)
	}
	s := Size{CPUs: []int{1, 3}, MemoryBytes: 2 << 30}
	var b strings.Builder
	for _, f := range describeSize(s, cpuinfo.String()) {
		text := f.text
		switch f.target {
		case meminfoFile:
			text = meminfo(s, cgroup.Usage{MemoryBytes: 1 << 30, InactiveBytes: 100 << 20, ActiveFileBytes: 50 << 20})
		case statFile:
			text = stat(s, cpuTime{busy: 3 * time.Second, idle: 5 * time.Second}, "btime 17")
		}
		fmt.Fprintf(&b, "-- %s over %s --\n%s", f.name(), f.target, text)
	}
	testenv.Golden(t, "size.txt", []byte(b.String()))
}

// TestMeminfoKeepsItsLength: it is written while others read it.
func TestMeminfoKeepsItsLength(t *testing.T) {
	s := Size{CPUs: []int{0}, MemoryBytes: 3 << 40}
	want := len(meminfo(s, cgroup.Usage{}))
	for _, u := range []cgroup.Usage{
		{MemoryBytes: 1 << 40, InactiveBytes: 7},
		{MemoryBytes: 4 << 40, InactiveBytes: 5 << 40, ActiveFileBytes: 1}, // counters of different moments
	} {
		got := meminfo(s, u)
		if len(got) != want || strings.Contains(got, "-1") {
			t.Errorf("%+v: %d bytes, want %d: %s", u, len(got), want, got)
		}
	}
}

func TestCPUTime(t *testing.T) {
	var c cpuTime
	c.add(2, time.Second, uint64(500*time.Millisecond))
	c.add(2, time.Second, uint64(3*time.Second)) // more than there is: the quota was made up for
	if want := (cpuTime{3500 * time.Millisecond, 1500 * time.Millisecond}); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
}

func TestCPULists(t *testing.T) {
	for want, cpus := range map[string][]int{"": nil, "0": {0}, "0-1": {0, 1}, "1,3-5,7": {1, 3, 4, 5, 7}} {
		if got := cpuList(cpus); got != want {
			t.Errorf("%v are %q, want %q", cpus, got, want)
		}
	}
}

// TestCPULimits: a host gets its processors by a quota or by their numbers, and all of
// them without either.
func TestCPULimits(t *testing.T) {
	m := Machine{CPUs: []int{0, 1, 2, 5}, MemoryBytes: 8 << 30}
	own := cgroup.Limits{MemoryBytes: 4 << 30}
	for _, tc := range []struct {
		milli  int64
		pin    bool
		turn   int
		cpus   []int
		limits cgroup.Limits
	}{
		{0, false, 0, m.CPUs, own},
		{4000, true, 1, m.CPUs, own},
		{9000, false, 1, m.CPUs, own}, // of a machine that was larger
		{2000, false, 1, []int{0, 1}, cgroup.Limits{MemoryBytes: 4 << 30, MilliCPU: 2000}},
		{2000, true, 1, []int{2, 5}, cgroup.Limits{MemoryBytes: 4 << 30, CPUs: "2,5"}},
		{3000, true, 1, []int{0, 1, 5}, cgroup.Limits{MemoryBytes: 4 << 30, CPUs: "0-1,5"}},
	} {
		given := own
		given.MilliCPU = tc.milli
		limits, size := cpuLimits(given, m, sizeOf(m, given), tc.pin, tc.turn)
		if !slices.Equal(size.CPUs, tc.cpus) || limits != tc.limits || size.MemoryBytes != 4<<30 {
			t.Errorf("%+v: %+v, %+v", tc, limits, size)
		}
	}
}
