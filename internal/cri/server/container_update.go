// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/oci"
)

// UpdateContainerResources changes the limits of a container, at once if it
// runs and at its start if it does not yet.
func (s *Server) UpdateContainerResources(ctx context.Context, req *runtime.UpdateContainerResourcesRequest) (
	*runtime.UpdateContainerResourcesResponse, error) {
	c, unlock, err := s.holdContainer(ctx, req.GetContainerId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if c.Removing {
		return nil, fmt.Errorf("failed to update resources: container %q is in removing state", c.ID)
	}
	if req.GetWindows() == nil {
		return &runtime.UpdateContainerResourcesResponse{}, nil
	}
	res := s.resources(req.GetWindows())
	if c.Running() {
		if err := s.runtime.Update(ctx, c.ID, res.Update()); err != nil {
			return nil, fmt.Errorf("failed to update resources: %w", err)
		}
	} else if err := s.rewriteLimits(c.ID, res); err != nil {
		return nil, fmt.Errorf("failed to update resources: %w", err)
	}
	if err := s.writeMemoryLimit(c.ID, res.MemoryBytes); err != nil {
		return nil, fmt.Errorf("failed to update resources: %w", err)
	}
	config := proto.CloneOf(c.Config)
	if config.Windows == nil {
		config.Windows = &runtime.WindowsContainerConfig{}
	}
	config.Windows.Resources = req.GetWindows()
	c.Config = config
	if err := s.store.Containers.Put(c); err != nil {
		return nil, err
	}
	return &runtime.UpdateContainerResourcesResponse{}, s.confine(c.SandboxID)
}

// rewriteLimits changes the description of a container that has not started.
func (s *Server) rewriteLimits(id string, res oci.Resources) error {
	spec, err := s.readSpec(id)
	if err != nil {
		return err
	}
	devices := spec.Linux.Resources.Devices
	spec.Linux.Resources = res.Update()
	spec.Linux.Resources.Devices = devices
	return s.saveSpec(id, spec)
}
