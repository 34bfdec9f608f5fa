// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CheckpointContainer is not implemented on Windows; the text is containerd's
// (internal/cri/server/container_checkpoint.go).
func (s *Server) CheckpointContainer(context.Context,
	*runtime.CheckpointContainerRequest) (*runtime.CheckpointContainerResponse, error) {
	return nil, status.Error(codes.Unimplemented, "method CheckpointContainer not implemented")
}
