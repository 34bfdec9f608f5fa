// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import "github.com/mullion-k8s/mullion/internal/cgroup"

// Machine has the resources that hosts share with everything else.
type Machine struct {
	MemoryBytes int64
	Tasks       int64 // processes and threads that the kernel can have
	DiskBytes   int64 // free, where the host's directory lies
}

// Ceilings bound what runs on hosts, so that a program that takes all that it can
// get ends before the machine is short of it.
type Ceilings struct {
	All  cgroup.Limits // all hosts of all clusters together
	Host cgroup.Limits // one host
}

// leastRest is the memory that the rest of the machine keeps at least.
const leastRest = 1 << 30

// CeilingsOf decides the ceilings. given are those of the host's configuration, which
// win. A share that hosts leave to each other would waste most of the machine while one
// of them works, so the ceilings of several hosts exceed that of all.
func CeilingsOf(m Machine, given cgroup.Limits) Ceilings {
	c := Ceilings{
		All: cgroup.Limits{
			MemoryBytes: max(m.MemoryBytes-max(m.MemoryBytes/5, leastRest), m.MemoryBytes/2),
			Processes:   m.Tasks * 3 / 4,
		},
		Host: given,
	}
	if c.Host.MemoryBytes == 0 {
		c.Host.MemoryBytes = c.All.MemoryBytes * 3 / 4
	}
	if c.Host.Processes == 0 {
		c.Host.Processes = m.Tasks / 2
	}
	return c
}
