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

// ListPodSandbox lists the sandboxes that match a filter.
func (s *Server) ListPodSandbox(_ context.Context,
	req *runtime.ListPodSandboxRequest) (*runtime.ListPodSandboxResponse, error) {
	return &runtime.ListPodSandboxResponse{Items: s.listSandboxes(req.GetFilter())}, nil
}

// StreamPodSandboxes is ListPodSandbox in as many messages as it takes.
func (s *Server) StreamPodSandboxes(req *runtime.StreamPodSandboxesRequest,
	out grpc.ServerStreamingServer[runtime.StreamPodSandboxesResponse]) error {
	return inPages(s.listSandboxes(req.GetFilter()), func(page []*runtime.PodSandbox) error {
		return out.Send(&runtime.StreamPodSandboxesResponse{PodSandboxes: page})
	})
}

// pageItems keeps a message of a stream far below the limit: an item is a few
// kilobytes of labels and annotations.
const pageItems = 200

// inPages sends a list in parts; an empty list is one empty part.
func inPages[T any](items []T, send func([]T) error) error {
	for {
		n := min(len(items), pageItems)
		if err := send(items[:n]); err != nil {
			return err
		}
		if items = items[n:]; len(items) == 0 {
			return nil
		}
	}
}

func (s *Server) listSandboxes(f *runtime.PodSandboxFilter) []*runtime.PodSandbox {
	var out []*runtime.PodSandbox
	for _, sb := range s.store.Sandboxes.List() {
		// A sandbox that is being created does not exist yet. One whose failed
		// creation could not be undone is listed, so that the kubelet removes it.
		if sb.Made == 0 && !sb.Removing || !matchSandbox(f, sb) {
			continue
		}
		out = append(out, &runtime.PodSandbox{
			Id: sb.ID, Metadata: sb.Config.GetMetadata(), State: sb.State(), CreatedAt: sb.Created,
			Labels: sb.Config.GetLabels(), Annotations: sb.Config.GetAnnotations(), RuntimeHandler: sb.Handler,
		})
	}
	return out
}

func matchSandbox(f *runtime.PodSandboxFilter, sb store.Sandbox) bool {
	return strings.HasPrefix(sb.ID, f.GetId()) &&
		(f.GetState() == nil || f.GetState().GetState() == sb.State()) &&
		matchLabels(f.GetLabelSelector(), sb.Config.GetLabels())
}

func matchLabels(want, have map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}
