// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"fmt"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ReopenContainerLog is called after the kubelet has renamed the log, and
// returns once output goes to the new one.
func (s *Server) ReopenContainerLog(ctx context.Context,
	req *runtime.ReopenContainerLogRequest) (*runtime.ReopenContainerLogResponse, error) {
	c, err := s.runningContainer(req.GetContainerId())
	if err != nil {
		return nil, err
	}
	if c.LogPath == "" {
		return &runtime.ReopenContainerLogResponse{}, nil
	}
	if err := s.runtime.ReopenLog(ctx, s.dir(c.ID, bundleDir), s.logFile(c)); err != nil {
		return nil, fmt.Errorf("container %q: %w", c.ID, err)
	}
	return &runtime.ReopenContainerLogResponse{}, nil
}
