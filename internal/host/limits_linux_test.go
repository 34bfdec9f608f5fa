// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"testing"

	"github.com/mullion-k8s/mullion/internal/cgroup"
)

// TestCeilings: each level is below the one above it, and all is below the machine.
func TestCeilings(t *testing.T) {
	for name, m := range map[string]Machine{
		"laptop": {MemoryBytes: 4 << 30, Tasks: 32768, DiskBytes: 10 << 30},
		"server": {MemoryBytes: 512 << 30, Tasks: 4 << 20, DiskBytes: 4 << 40},
		"tiny":   {MemoryBytes: 1 << 30, Tasks: 4096, DiskBytes: 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			c := CeilingsOf(m, cgroup.Limits{}, 1)
			for what, order := range map[string][]int64{
				"memory": {0, c.Host.MemoryBytes, c.All.MemoryBytes, m.MemoryBytes},
				"tasks":  {0, c.Host.Processes, c.All.Processes, m.Tasks},
			} {
				for i := 1; i < len(order); i++ {
					if order[i-1] >= order[i] {
						t.Errorf("%s: %d is not below %d", what, order[i-1], order[i])
					}
				}
			}
		})
	}
	given := cgroup.Limits{MemoryBytes: 8 << 30, MilliCPU: 1500, Processes: 1000}
	c := CeilingsOf(Machine{MemoryBytes: 64 << 30, Tasks: 32768, DiskBytes: 1 << 40}, given, 4)
	if c.Host != given {
		t.Errorf("with limits of the configuration: %+v", c)
	}
}

// TestMemoryOfHosts: all hosts together get three quarters of the memory, and each no
// less than it can work with.
func TestMemoryOfHosts(t *testing.T) {
	for _, tc := range []struct {
		machine     int64
		hosts       int
		want, total int64
	}{
		{64 << 30, 4, 12 << 30, 48 << 30},
		{24100 << 20, 4, 4352 << 20, 18 << 30},
		{24100 << 20, 0, 14460 << 20, 18 << 30}, // one: no more than its part of what all may have
		{8 << 30, 4, 2 << 30, 8 << 30},
		{4 << 30, 4, 2 << 30, 8 << 30},
	} {
		c := CeilingsOf(Machine{MemoryBytes: tc.machine, Tasks: 32768}, cgroup.Limits{}, tc.hosts)
		if got := c.Host.MemoryBytes; got != tc.want || got*int64(tc.hosts) > tc.total {
			t.Errorf("%d MiB, %d hosts: %d MiB, want %d", tc.machine>>20, tc.hosts, got>>20, tc.want>>20)
		}
	}
}

func TestMeasure(t *testing.T) {
	m, err := measure(t.TempDir())
	if err != nil || len(m.CPUs) == 0 || m.MemoryBytes < 1<<20 || m.Tasks < 300 || m.DiskBytes <= 0 {
		t.Errorf("%+v, %v", m, err)
	}
}
