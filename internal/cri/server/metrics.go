// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"

	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The metrics of CRI come from cAdvisor, which counts on Linux only; containerd on
// Windows doesn't list any either.

// ListMetricDescriptors lists no metrics.
func (s *Server) ListMetricDescriptors(context.Context,
	*runtime.ListMetricDescriptorsRequest) (*runtime.ListMetricDescriptorsResponse, error) {
	return &runtime.ListMetricDescriptorsResponse{}, nil
}

// ListPodSandboxMetrics lists the sandboxes without metrics.
func (s *Server) ListPodSandboxMetrics(context.Context,
	*runtime.ListPodSandboxMetricsRequest) (*runtime.ListPodSandboxMetricsResponse, error) {
	return &runtime.ListPodSandboxMetricsResponse{PodMetrics: s.sandboxMetrics()}, nil
}

// StreamPodSandboxMetrics is ListPodSandboxMetrics in as many messages as it takes.
func (s *Server) StreamPodSandboxMetrics(_ *runtime.StreamPodSandboxMetricsRequest,
	out grpc.ServerStreamingServer[runtime.StreamPodSandboxMetricsResponse]) error {
	return inPages(s.sandboxMetrics(), func(page []*runtime.PodSandboxMetrics) error {
		return out.Send(&runtime.StreamPodSandboxMetricsResponse{PodSandboxMetrics: page})
	})
}

func (s *Server) sandboxMetrics() []*runtime.PodSandboxMetrics {
	var out []*runtime.PodSandboxMetrics
	for _, sb := range s.store.Sandboxes.List() {
		if sb.Ready() {
			out = append(out, &runtime.PodSandboxMetrics{PodSandboxId: sb.ID})
		}
	}
	return out
}
