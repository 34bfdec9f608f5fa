// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"fmt"
	"strings"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/cri/store"
)

// Ceilings bound a pod's use of the machine, whatever its containers request. Zero
// means no ceiling.
//
// Fidelity: Windows has no such limits; a pod without limits may take the whole node
// there. Here the node is not the whole machine.
type Ceilings struct {
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	Tasks       int64 `json:"tasks,omitempty"` // processes and threads
	// DiskBytes is for drives C, emptyDir volumes and logs of one pod.
	DiskBytes int64 `json:"diskBytes,omitempty"`
	// AllDisk is the ceiling of all pods of the host together.
	AllDisk int64 `json:"allDisk,omitempty"`
	// CPUShares is the weight of all pods of the host together.
	CPUShares int64 `json:"cpuShares,omitempty"`
}

// Reasons of ends by a limit, beside reasonOOM. Events of the pod repeat them.
const (
	reasonTasks = "ProcessLimitExceeded"
	reasonDisk  = "DiskLimitExceeded"
)

// confine gives the sandbox's cgroup its limits; the containers' are in it.
func (s *Server) confine(id string) error {
	l := cgroup.Limits{MemoryBytes: s.memoryCeiling(id), Processes: s.cfg.Ceilings.Tasks}
	if l == (cgroup.Limits{}) {
		return nil
	}
	if err := s.cgroups.Child(id).Make(l); err != nil {
		return fmt.Errorf("limit sandbox %q: %w", id, err)
	}
	return nil
}

// memoryCeiling returns the limit of a sandbox's memory. A pod that requests more than the
// ceiling gets it: the ceiling is for pods without a request.
func (s *Server) memoryCeiling(id string) int64 {
	if s.cfg.Ceilings.MemoryBytes == 0 {
		return 0
	}
	var asked int64
	for _, c := range s.containersOf(id) {
		asked += c.Config.GetWindows().GetResources().GetMemoryLimitInBytes()
	}
	return max(s.cfg.Ceilings.MemoryBytes, asked)
}

// memoryMessage explains why a container was ended for its memory.
func (s *Server) memoryMessage(c store.Container) string {
	if n := c.Config.GetWindows().GetResources().GetMemoryLimitInBytes(); n > 0 {
		return fmt.Sprintf("The container has used up its limit of memory, %d bytes.", n)
	}
	if s.cfg.Ceilings.MemoryBytes > 0 {
		return fmt.Sprintf("The pod has used up the memory that a pod without a limit may use on this node, %d bytes.",
			s.memoryCeiling(c.SandboxID))
	}
	return "The node has used up its memory."
}

func tasksMessage(limit uint64) string {
	return fmt.Sprintf("The container has gone on starting processes or threads at its limit, %d together.", limit)
}

func scratchMessage(used, limit uint64) string {
	return fmt.Sprintf("There is not enough space on the disk: drive C has %d bytes of %d.", used, limit)
}

// stuckLooks is how many looks in a row a container must be at its limit of processes before it
// is ended. A program that once starts more than it may, and copes, goes on.
const stuckLooks = 5

// taskWatch detects a container that only runs against its limit of processes and
// threads: it no longer works, and its attempts cost the others.
type taskWatch struct {
	refused uint64 // by the look before
	looks   int    // in a row
}

// look takes one look, and reports whether the container is to be ended.
func (w *taskWatch) look(refused, tasks, limit uint64) bool {
	again := refused > w.refused
	full := refused > 0 && limit > 0 && tasks >= limit-limit/20
	w.refused = refused
	if !again && !full {
		w.looks = 0
		return false
	}
	w.looks++
	return w.looks >= stuckLooks
}

// taskLimit returns the limit of processes and threads of a container.
func (s *Server) taskLimit() uint64 {
	limit := uint64(oci.PIDs)
	if n := s.cfg.Ceilings.Tasks; n > 0 {
		limit = min(limit, uint64(n))
	}
	return limit
}

// podDisk is how much a pod has written.
type podDisk struct {
	sandbox string
	bytes   uint64
}

// overDisk returns the pods that must be ended, with the reason: pods above their own
// ceiling and, if the total exceeds AllDisk, the largest ones.
func (l Ceilings) overDisk(pods []podDisk) map[string]string {
	over := map[string]string{}
	var all uint64
	var largest podDisk
	for _, p := range pods {
		all += p.bytes
		if p.bytes > largest.bytes {
			largest = p
		}
		if l.DiskBytes > 0 && p.bytes > uint64(l.DiskBytes) {
			over[p.sandbox] = fmt.Sprintf(
				"There is not enough space on the disk: the pod's drives C, emptyDir volumes and logs have %d bytes; "+
					"a pod on this node may have %d.",
				p.bytes, l.DiskBytes)
		}
	}
	if len(over) == 0 && l.AllDisk > 0 && all > uint64(l.AllDisk) {
		over[largest.sandbox] = fmt.Sprintf(
			"There is not enough space on the disk: all pods of this node have %d bytes and may have %d; "+
				"this pod has most of them, %d.",
			all, l.AllDisk, largest.bytes)
	}
	return over
}

// emptyDir is the part of a path by which the kubelet's emptyDir volumes are known:
// k8s.io/kubernetes/pkg/volume/emptydir, emptyDirPluginName.
const emptyDir = `\volumes\kubernetes.io~empty-dir\`

// isOwnVolume reports whether a mount is a volume that lives and dies with its pod.
func isOwnVolume(m *runtime.Mount, uid string) bool {
	p := strings.ReplaceAll(m.GetHostPath(), "/", `\`)
	return !m.GetReadonly() && uid != "" && strings.Contains(p, `\`+uid+emptyDir)
}
