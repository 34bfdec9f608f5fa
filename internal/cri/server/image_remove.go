// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RemoveImage removes an image with all its names. One that does not exist
// counts as removed.
func (s *Server) RemoveImage(ctx context.Context,
	req *runtime.RemoveImageRequest) (*runtime.RemoveImageResponse, error) {
	return &runtime.RemoveImageResponse{}, s.cfg.Images.Remove(ctx, req.GetImage().GetImage())
}
