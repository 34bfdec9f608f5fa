// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"testing"

	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/host"
)

// TestPodCeilings: a pod's are below its host's, and all is below the machine.
func TestPodCeilings(t *testing.T) {
	for name, m := range map[string]host.Machine{
		"laptop": {MemoryBytes: 4 << 30, Tasks: 32768, DiskBytes: 10 << 30},
		"server": {MemoryBytes: 512 << 30, Tasks: 4 << 20, DiskBytes: 4 << 40},
		"tiny":   {MemoryBytes: 1 << 30, Tasks: 4096, DiskBytes: 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			own := host.CeilingsOf(m, cgroup.Limits{}, 1).Host
			pod := podCeilings(m, own)
			for what, order := range map[string][]int64{
				"memory": {0, pod.MemoryBytes, own.MemoryBytes, m.MemoryBytes},
				"tasks":  {0, pod.Tasks, own.Processes, m.Tasks},
				"disk":   {0, pod.DiskBytes, pod.AllDisk, m.DiskBytes},
			} {
				for i := 1; i < len(order); i++ {
					if order[i-1] >= order[i] {
						t.Errorf("%s: %d is not below %d", what, order[i-1], order[i])
					}
				}
			}
		})
	}
	m := host.Machine{MemoryBytes: 64 << 30, Tasks: 32768, DiskBytes: 1 << 40}
	given := cgroup.Limits{MemoryBytes: 8 << 30, MilliCPU: 1500, Processes: 1000}
	if pod := podCeilings(m, given); pod.MemoryBytes != 4<<30 || pod.Tasks != 500 {
		t.Errorf("with limits of the configuration: %+v", pod)
	}
}
