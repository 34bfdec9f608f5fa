// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package oci

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// Resources are a container's limits as Windows counts them. Zero means that
// there is no limit of that kind. Source: message WindowsContainerResources of
// k8s.io/cri-api, and WindowsCPUResources of the OCI runtime specification.
type Resources struct {
	NodeCPUs int // logical processors of the node, at least 1

	CPUMaximum  int64 // share of all the node's processors, in 1/10000
	CPUCount    int64 // processors; used if CPUMaximum is zero
	CPUShares   int64 // relative weight, 0 to 10000
	MemoryBytes int64
	// Affinity are the processor groups (of 64) and masks that may be used.
	Affinity []Affinity
}

// Affinity is a GROUP_AFFINITY: processors of one group.
type Affinity struct {
	Mask  uint64
	Group uint32
}

// cpuPeriodMicros is the interval in which a CPU quota is counted; the
// kernel's default (Documentation/scheduler/sched-bwc.rst).
const cpuPeriodMicros = 100_000

// minQuotaMicros is the smallest quota that the kernel takes: 1 ms.
const minQuotaMicros = 1000

// maxCPU is the whole node in units of CPUMaximum.
const maxCPU = 10_000

// PIDs is the limit of processes and threads together. Windows has no limit. Wine itself
// runs about 40 threads in a container, a .NET or Go service 20 to 50; 2048 leaves room for
// hundreds and still stops a fork bomb long before it fills the machine's table of 32768.
const PIDs = 2048

// quotaMicros returns the CPU time per period; zero if there is no limit.
func (r Resources) quotaMicros() int64 {
	var quota int64
	switch {
	case r.CPUMaximum > 0:
		// The job object's rate control counts all processors of the node as
		// one whole, the kernel's quota counts them one by one.
		quota = min(r.CPUMaximum, maxCPU) * cpuPeriodMicros * int64(max(r.NodeCPUs, 1)) / maxCPU
	case r.CPUCount > 0:
		quota = min(r.CPUCount, int64(max(r.NodeCPUs, 1))) * cpuPeriodMicros
	default:
		return 0
	}
	return max(quota, minQuotaMicros)
}

// shares maps a weight of 1 to 10000 (5000 is Windows' middle: "CpuWeight",
// Host Compute System schema, Processor) to the kernel's, whose default is 1024.
func (r Resources) shares() uint64 {
	if r.CPUShares <= 0 {
		return 0
	}
	return max(2, uint64(min(r.CPUShares, maxCPU))*1024/5000)
}

// cpus returns the list of processors in the kernel's form, "0,2-3"; empty for all.
func (r Resources) cpus() string {
	var ids []int
	for _, a := range r.Affinity {
		for m := a.Mask; m != 0; m &= m - 1 {
			if id := int(a.Group)*64 + bits.TrailingZeros64(m); id < max(r.NodeCPUs, 1) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	var out []string
	for _, id := range slices.Compact(ids) {
		out = append(out, strconv.Itoa(id))
	}
	return strings.Join(out, ",")
}

func (r Resources) linux() *specs.LinuxResources {
	out := &specs.LinuxResources{
		Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}},
		CPU:     r.cpu(),
	}
	if r.MemoryBytes > 0 {
		limit := r.MemoryBytes
		// Equal limits: a container must not evade its limit into swap.
		out.Memory = &specs.LinuxMemory{Limit: &limit, Swap: &limit}
	}
	out.Pids = &specs.LinuxPids{Limit: new(int64(PIDs))}
	return out
}

func (r Resources) cpu() *specs.LinuxCPU {
	cpu := &specs.LinuxCPU{Cpus: r.cpus()}
	if quota := r.quotaMicros(); quota > 0 {
		period := uint64(cpuPeriodMicros)
		cpu.Quota, cpu.Period = &quota, &period
	}
	if shares := r.shares(); shares > 0 {
		cpu.Shares = &shares
	}
	if *cpu == (specs.LinuxCPU{}) {
		return nil
	}
	return cpu
}

// Update returns the part of the configuration that `runc update` takes for new
// limits of a running container.
func (r Resources) Update() *specs.LinuxResources {
	out := r.linux()
	out.Devices = nil
	return out
}
