// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/image"
)

// ImageStatus describes an image. The response for an unknown image is empty, as CRI
// requires.
func (s *Server) ImageStatus(_ context.Context, req *runtime.ImageStatusRequest) (*runtime.ImageStatusResponse, error) {
	img, err := s.cfg.Images.Get(req.GetImage().GetImage())
	if errors.Is(err, image.ErrNotFound) {
		return &runtime.ImageStatusResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	resp := &runtime.ImageStatusResponse{Image: imageMessage(img)}
	if req.GetVerbose() {
		info, err := json.Marshal(map[string]any{
			"imageSpec": map[string]any{"os": img.OS, "architecture": img.Arch, "os.version": img.OSVersion,
				"created": img.Created, "config": img.Config},
			"standIn": img.StandIn, "notes": img.Notes, "layers": img.Layers,
		})
		if err != nil {
			return nil, fmt.Errorf("describe image: %w", err)
		}
		resp.Info = map[string]string{"info": string(info)}
	}
	return resp, nil
}
