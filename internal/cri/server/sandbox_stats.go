// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// PodSandboxStats returns the resource usage of a sandbox and its containers.
func (s *Server) PodSandboxStats(ctx context.Context,
	req *runtime.PodSandboxStatsRequest) (*runtime.PodSandboxStatsResponse, error) {
	sb, err := s.sandbox(req.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	return &runtime.PodSandboxStatsResponse{Stats: s.sandboxStats(ctx, sb)}, nil
}

// ListPodSandboxStats returns the resource usage of the sandboxes that match a filter.
func (s *Server) ListPodSandboxStats(ctx context.Context,
	req *runtime.ListPodSandboxStatsRequest) (*runtime.ListPodSandboxStatsResponse, error) {
	return &runtime.ListPodSandboxStatsResponse{Stats: s.listSandboxStats(ctx, req.GetFilter())}, nil
}

// StreamPodSandboxStats is ListPodSandboxStats in as many messages as it takes.
func (s *Server) StreamPodSandboxStats(req *runtime.StreamPodSandboxStatsRequest,
	out grpc.ServerStreamingServer[runtime.StreamPodSandboxStatsResponse]) error {
	return inPages(s.listSandboxStats(out.Context(), req.GetFilter()), func(page []*runtime.PodSandboxStats) error {
		return out.Send(&runtime.StreamPodSandboxStatsResponse{PodSandboxStats: page})
	})
}

func (s *Server) listSandboxStats(ctx context.Context, f *runtime.PodSandboxStatsFilter) []*runtime.PodSandboxStats {
	var out []*runtime.PodSandboxStats
	for _, sb := range s.store.Sandboxes.List() {
		if sb.Ready() && strings.HasPrefix(sb.ID, f.GetId()) &&
			matchLabels(f.GetLabelSelector(), sb.Config.GetLabels()) {
			out = append(out, s.sandboxStats(ctx, sb))
		}
	}
	return out
}

// sandboxStats adds up the containers; a sandbox itself has no process.
func (s *Server) sandboxStats(ctx context.Context, sb store.Sandbox) *runtime.PodSandboxStats {
	at := now()
	total := sample{}
	win := &runtime.WindowsPodSandboxStats{}
	for _, c := range s.containersOf(sb.ID) {
		if !c.Running() {
			continue
		}
		m := s.sample(c)
		win.Containers = append(win.Containers, s.windowsStats(c, m))
		total.CPUNanos += m.CPUNanos
		total.nanoCores += m.nanoCores
		total.hasRate = total.hasRate || m.hasRate
		total.MemoryBytes += m.MemoryBytes
		total.InactiveBytes += m.InactiveBytes
		total.PageFaults += m.PageFaults
		total.Tasks += m.Tasks
	}
	win.Cpu, win.Memory = windowsCPU(total, at), windowsMemory(total, at)
	win.Process = &runtime.WindowsProcessUsage{Timestamp: at, ProcessCount: number(total.Tasks)}
	if sb.NamespaceID != "" {
		if stats, err := s.cfg.Namespaces.NamespaceStats(ctx, sb.NamespaceID); err == nil {
			win.Network = windowsNetwork(stats, at)
		} else {
			s.log.WarnContext(ctx, "counters of a namespace cannot be read", logkey.SandboxID, sb.ID, logkey.Error, err)
		}
	}
	return &runtime.PodSandboxStats{
		Attributes: &runtime.PodSandboxAttributes{
			Id:          sb.ID,
			Metadata:    sb.Config.GetMetadata(),
			Labels:      sb.Config.GetLabels(),
			Annotations: sb.Config.GetAnnotations(),
		},
		Windows: win,
	}
}

func (s *Server) windowsStats(c store.Container, m sample) *runtime.WindowsContainerStats {
	at := m.at.UnixNano()
	return &runtime.WindowsContainerStats{
		Attributes: s.attributes(c), Cpu: windowsCPU(m, at), Memory: windowsMemory(m, at),
		WritableLayer: &runtime.WindowsFilesystemUsage{
			Timestamp: m.diskAt.UnixNano(), FsId: &runtime.FilesystemIdentifier{Mountpoint: imageFS},
			UsedBytes: number(m.disk),
		},
	}
}

func windowsCPU(m sample, at int64) *runtime.WindowsCpuUsage {
	out := &runtime.WindowsCpuUsage{Timestamp: at, UsageCoreNanoSeconds: number(m.CPUNanos)}
	if m.hasRate {
		out.UsageNanoCores = number(m.nanoCores)
	}
	return out
}

func windowsMemory(m sample, at int64) *runtime.WindowsMemoryUsage {
	return &runtime.WindowsMemoryUsage{
		Timestamp:         at,
		WorkingSetBytes:   number(m.WorkingSet()),
		CommitMemoryBytes: number(m.MemoryBytes),
		PageFaults:        number(m.PageFaults),
	}
}

func windowsNetwork(stats []hns.EndpointStats, at int64) *runtime.WindowsNetworkUsage {
	out := &runtime.WindowsNetworkUsage{Timestamp: at}
	for _, e := range stats {
		i := &runtime.WindowsNetworkInterfaceUsage{
			Name: e.Name, RxBytes: number(e.BytesReceived), TxBytes: number(e.BytesSent),
			RxPacketsDropped: number(e.DroppedPacketsIncoming), TxPacketsDropped: number(e.DroppedPacketsOutgoing),
		}
		if out.DefaultInterface == nil {
			out.DefaultInterface = i
		} else {
			out.Interfaces = append(out.Interfaces, i)
		}
	}
	return out
}
