// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import "github.com/mullion-k8s/mullion/internal/cgroup"

// Machine has the resources that hosts share with everything else.
type Machine struct {
	CPUs        []int // numbers of the processors, sorted
	MemoryBytes int64
	Tasks       int64 // processes and threads that the kernel can have
	DiskBytes   int64 // free, where the host's directory lies; in Parent the size of the host's disk
}

// Ceilings bound the programs on hosts, so that a program that takes all memory
// ends before the machine is short of it.
type Ceilings struct {
	All  cgroup.Limits // all hosts of all clusters together
	Host cgroup.Limits // one host
}

// leastRest is the memory that the rest of the machine keeps at least.
const leastRest = 1 << 30

// A host's share of the machine's memory without a configured limit.
const (
	leastMemory = 2 << 30   // at least, unless that is more than its share of the ceiling
	memoryUnit  = 256 << 20 // sizes are rounded down to it
)

// CeilingsOf decides the ceilings. given are the ceilings of the host's
// configuration, which win. hosts is how many share the machine: all together get
// three quarters of its memory. Processors are not divided, because hosts seldom work
// all at once, and a busy one harms the others little.
func CeilingsOf(m Machine, given cgroup.Limits, hosts int) Ceilings {
	c := Ceilings{
		All: cgroup.Limits{
			MemoryBytes: max(m.MemoryBytes-max(m.MemoryBytes/5, leastRest), m.MemoryBytes/2),
			Processes:   m.Tasks * 3 / 4,
		},
		Host: given,
	}
	if c.Host.MemoryBytes == 0 {
		share := m.MemoryBytes * 3 / 4 / int64(max(hosts, 1)) / memoryUnit * memoryUnit
		c.Host.MemoryBytes = min(max(share, leastMemory), c.All.MemoryBytes*3/4)
	}
	if c.Host.Processes == 0 {
		c.Host.Processes = m.Tasks / 2
	}
	return c
}
