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

// ListContainers lists the containers that match a filter.
func (s *Server) ListContainers(_ context.Context,
	req *runtime.ListContainersRequest) (*runtime.ListContainersResponse, error) {
	return &runtime.ListContainersResponse{Containers: s.listContainers(req.GetFilter())}, nil
}

// StreamContainers is ListContainers in as many messages as it takes.
func (s *Server) StreamContainers(req *runtime.StreamContainersRequest,
	out grpc.ServerStreamingServer[runtime.StreamContainersResponse]) error {
	return inPages(s.listContainers(req.GetFilter()), func(page []*runtime.Container) error {
		return out.Send(&runtime.StreamContainersResponse{Containers: page})
	})
}

func (s *Server) listContainers(f *runtime.ContainerFilter) []*runtime.Container {
	var out []*runtime.Container
	for _, c := range s.store.Containers.List() {
		if c.Made == 0 && !c.Removing || !matchContainer(f, c) {
			continue
		}
		out = append(out, &runtime.Container{
			Id:           c.ID,
			PodSandboxId: c.SandboxID,
			Metadata:     c.Config.GetMetadata(),
			Image:        c.Config.GetImage(),
			ImageRef:     c.ImageID,
			ImageId:      c.ImageID,
			State:        c.State(),
			CreatedAt:    c.Created,
			Labels:       c.Config.GetLabels(),
			Annotations:  c.Config.GetAnnotations(),
		})
	}
	return out
}

func matchContainer(f *runtime.ContainerFilter, c store.Container) bool {
	return strings.HasPrefix(c.ID, f.GetId()) && strings.HasPrefix(c.SandboxID, f.GetPodSandboxId()) &&
		(f.GetState() == nil || f.GetState().GetState() == c.State()) &&
		matchLabels(f.GetLabelSelector(), c.Config.GetLabels())
}
