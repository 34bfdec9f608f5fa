// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"errors"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// PullImage fetches an image and returns its ID.
func (s *Server) PullImage(ctx context.Context, req *runtime.PullImageRequest) (*runtime.PullImageResponse, error) {
	ref := req.GetImage().GetImage()
	if ref == "" {
		return nil, invalid{errors.New("image reference must not be empty")}
	}
	var auth *image.Auth
	if a := req.GetAuth(); a != nil {
		auth = &image.Auth{
			Username:      a.GetUsername(),
			Password:      a.GetPassword(),
			Auth:          a.GetAuth(),
			ServerAddress: a.GetServerAddress(),
			IdentityToken: a.GetIdentityToken(),
			RegistryToken: a.GetRegistryToken(),
		}
	}
	img, err := s.cfg.Images.Pull(ctx, ref, auth)
	if err != nil {
		return nil, err
	}
	s.log.InfoContext(ctx, "image pulled", logkey.Image, ref, logkey.Size, img.Size)
	return &runtime.PullImageResponse{ImageRef: img.ID}, nil
}
