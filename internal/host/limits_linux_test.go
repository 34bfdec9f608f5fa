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
			c := CeilingsOf(m, cgroup.Limits{})
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
	c := CeilingsOf(Machine{MemoryBytes: 64 << 30, Tasks: 32768, DiskBytes: 1 << 40}, given)
	if c.Host != given {
		t.Errorf("with limits of the configuration: %+v", c)
	}
}

func TestMeasure(t *testing.T) {
	m, err := measure(t.TempDir())
	if err != nil || m.MemoryBytes < 1<<20 || m.Tasks < 300 || m.DiskBytes <= 0 {
		t.Errorf("%+v, %v", m, err)
	}
}
