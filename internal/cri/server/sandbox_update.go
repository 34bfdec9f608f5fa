// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// UpdatePodSandboxResources carries Linux resources only, so it has no effect;
// containerd has no implementation for Windows either.
func (s *Server) UpdatePodSandboxResources(_ context.Context, req *runtime.UpdatePodSandboxResourcesRequest) (
	*runtime.UpdatePodSandboxResourcesResponse, error) {
	if _, err := s.sandbox(req.GetPodSandboxId()); err != nil {
		return nil, err
	}
	return &runtime.UpdatePodSandboxResourcesResponse{}, nil
}
