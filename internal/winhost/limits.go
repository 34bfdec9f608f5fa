// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/cri/server"
	"github.com/mullion-k8s/mullion/internal/host"
)

const (
	// podTasks is twice the limit of one container (oci.PIDs).
	podTasks = 4096
	// podDisk is the size of a Windows container's drive C, hcsshim's default.
	podDisk = 20 << 30
	// podsShares is the weight of all pods of a host together. The host's own programs
	// have the kernel's default, 1024: the kubelet and the container runtime must keep
	// up with the pods.
	podsShares = 512
)

// podCeilings bounds each pod of a host that has the given ceilings itself.
func podCeilings(m host.Machine, own cgroup.Limits) server.Ceilings {
	return server.Ceilings{
		MemoryBytes: own.MemoryBytes / 2,
		Tasks:       min(podTasks, own.Processes/2),
		DiskBytes:   min(podDisk, m.DiskBytes/4),
		AllDisk:     m.DiskBytes / 2,
		CPUShares:   podsShares,
	}
}
