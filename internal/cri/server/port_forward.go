// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"fmt"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PortForward returns a URL for connections to a sandbox.
func (s *Server) PortForward(_ context.Context, req *runtime.PortForwardRequest) (*runtime.PortForwardResponse, error) {
	sb, err := s.sandbox(req.GetPodSandboxId())
	if err != nil {
		return nil, fmt.Errorf("failed to find sandbox %q: %w", req.GetPodSandboxId(), err)
	}
	if !sb.Ready() {
		return nil, fmt.Errorf("sandbox container %q is not running", sb.ID)
	}
	return s.streams.PortForward(req)
}
