// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/store"
)

// ContainerStats returns the resource usage of a container.
func (s *Server) ContainerStats(_ context.Context,
	req *runtime.ContainerStatsRequest) (*runtime.ContainerStatsResponse, error) {
	c, err := s.container(req.GetContainerId())
	if err != nil {
		return nil, err
	}
	return &runtime.ContainerStatsResponse{Stats: s.containerStats(c)}, nil
}

// ListContainerStats returns the resource usage of the containers that match a filter.
func (s *Server) ListContainerStats(_ context.Context,
	req *runtime.ListContainerStatsRequest) (*runtime.ListContainerStatsResponse, error) {
	return &runtime.ListContainerStatsResponse{Stats: s.listContainerStats(req.GetFilter())}, nil
}

// StreamContainerStats is ListContainerStats in as many messages as it takes.
func (s *Server) StreamContainerStats(req *runtime.StreamContainerStatsRequest,
	out grpc.ServerStreamingServer[runtime.StreamContainerStatsResponse]) error {
	return inPages(s.listContainerStats(req.GetFilter()), func(page []*runtime.ContainerStats) error {
		return out.Send(&runtime.StreamContainerStatsResponse{ContainerStats: page})
	})
}

func (s *Server) listContainerStats(f *runtime.ContainerStatsFilter) []*runtime.ContainerStats {
	var out []*runtime.ContainerStats
	for _, c := range s.store.Containers.List() {
		if c.Running() && strings.HasPrefix(c.ID, f.GetId()) && strings.HasPrefix(c.SandboxID, f.GetPodSandboxId()) &&
			matchLabels(f.GetLabelSelector(), c.Config.GetLabels()) {
			out = append(out, s.containerStats(c))
		}
	}
	return out
}

func (s *Server) attributes(c store.Container) *runtime.ContainerAttributes {
	return &runtime.ContainerAttributes{
		Id:          c.ID,
		Metadata:    c.Config.GetMetadata(),
		Labels:      c.Config.GetLabels(),
		Annotations: c.Config.GetAnnotations(),
	}
}

// containerStats fills the fields that the kubelet reads on Windows too: it takes
// containers from this message, not from the one for Windows.
func (s *Server) containerStats(c store.Container) *runtime.ContainerStats {
	m := s.sample(c)
	at := m.at.UnixNano()
	out := &runtime.ContainerStats{
		Attributes: s.attributes(c),
		Cpu:        &runtime.CpuUsage{Timestamp: at, UsageCoreNanoSeconds: number(m.CPUNanos)},
		Memory: &runtime.MemoryUsage{
			Timestamp: at, WorkingSetBytes: number(m.WorkingSet()), UsageBytes: number(m.MemoryBytes),
			PageFaults: number(m.PageFaults), MajorPageFaults: number(m.MajorPageFaults),
		},
		WritableLayer: &runtime.FilesystemUsage{
			Timestamp: m.diskAt.UnixNano(), FsId: &runtime.FilesystemIdentifier{Mountpoint: imageFS},
			UsedBytes: number(m.disk), InodesUsed: number(m.inodes),
		},
	}
	if m.LimitBytes > 0 && m.LimitBytes >= m.WorkingSet() {
		out.Memory.AvailableBytes = number(m.LimitBytes - m.WorkingSet())
	}
	if m.hasRate {
		out.Cpu.UsageNanoCores = number(m.nanoCores)
	}
	return out
}

func number(n uint64) *runtime.UInt64Value { return &runtime.UInt64Value{Value: n} }
