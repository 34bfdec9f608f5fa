// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/cri/server"
)

// machine has the resources that emulated hosts share with everything else.
type machine struct {
	MemoryBytes int64
	Tasks       int64 // processes and threads that the kernel can have
	DiskBytes   int64 // free, where the host's directory lies
}

// ceilings bound what runs on emulated hosts, so that a program that takes all that it
// can get ends before the machine is short of it.
type ceilings struct {
	All  cgroup.Limits   // all hosts of all clusters together
	Host cgroup.Limits   // one host
	Pod  server.Ceilings // one pod
}

const (
	// podTasks is twice the limit of one container (oci.DefaultPIDs).
	podTasks = 4096
	// podDisk is the size of a Windows container's drive C, hcsshim's default.
	podDisk = 20 << 30
	// podsShares is the weight of all pods of a host together. The host's own programs
	// have the kernel's default, 1024: the kubelet and the container runtime must keep
	// up with what pods do.
	podsShares = 512
	// leastRest is the memory that the rest of the machine keeps at least.
	leastRest = 1 << 30
)

// ceilingsOf decides the ceilings. given are those of the host's configuration, which
// win. A share that hosts leave to each other would waste most of the machine while one
// of them works, so the ceilings of several hosts exceed that of all.
func ceilingsOf(m machine, given cgroup.Limits) ceilings {
	c := ceilings{
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
	c.Pod = server.Ceilings{
		MemoryBytes: c.Host.MemoryBytes / 2,
		Tasks:       min(podTasks, c.Host.Processes/2),
		DiskBytes:   min(podDisk, m.DiskBytes/4),
		AllDisk:     m.DiskBytes / 2,
		CPUShares:   podsShares,
	}
	return c
}
