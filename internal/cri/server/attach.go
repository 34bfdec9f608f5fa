// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"fmt"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Attach returns a URL for the streams of a container.
func (s *Server) Attach(_ context.Context, req *runtime.AttachRequest) (*runtime.AttachResponse, error) {
	if _, err := s.runningContainer(req.GetContainerId()); err != nil {
		return nil, fmt.Errorf("failed to find container in store: %w", err)
	}
	return s.streams.Attach(req)
}
