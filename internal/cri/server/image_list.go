// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/image"
)

// ListImages lists the images, or the one that a filter names.
func (s *Server) ListImages(_ context.Context, req *runtime.ListImagesRequest) (*runtime.ListImagesResponse, error) {
	list, err := s.listImages(req.GetFilter())
	return &runtime.ListImagesResponse{Images: list}, err
}

// StreamImages is ListImages in as many messages as it takes.
func (s *Server) StreamImages(req *runtime.StreamImagesRequest,
	out grpc.ServerStreamingServer[runtime.StreamImagesResponse]) error {
	list, err := s.listImages(req.GetFilter())
	if err != nil {
		return err
	}
	return inPages(list, func(page []*runtime.Image) error {
		return out.Send(&runtime.StreamImagesResponse{Images: page})
	})
}

func (s *Server) listImages(f *runtime.ImageFilter) ([]*runtime.Image, error) {
	var out []*runtime.Image
	if ref := f.GetImage().GetImage(); ref != "" {
		img, err := s.cfg.Images.Get(ref)
		if errors.Is(err, image.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return append(out, imageMessage(img)), nil
	}
	for _, img := range s.cfg.Images.List() {
		out = append(out, imageMessage(img))
	}
	return out, nil
}

// imageMessage returns an image as CRI describes it. On Windows a user is a name,
// never a number.
func imageMessage(img *image.Image) *runtime.Image {
	return &runtime.Image{
		Id:          img.ID,
		RepoTags:    img.RepoTags,
		RepoDigests: img.RepoDigests,
		Size:        uint64(max(img.Size, 0)),
		Username:    img.Config.User,
		Spec:        &runtime.ImageSpec{Image: img.ID},
		// The kubelet's garbage collection must not remove images that no registry
		// has.
		Pinned: img.StandIn,
	}
}
