// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"io"
	"net"
	"path/filepath"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/host/imageload"
)

// imageSocket is where `mullion load` reaches the host; the cluster's layout
// names the same file from outside.
var imageSocket = filepath.Join(nodeDir, "images.sock")

// serveImages stores the images that `mullion load` sends, and lists all.
func serveImages(ctx context.Context, l net.Listener, store *image.Store) error {
	return imageload.Serve(ctx, l, func(ctx context.Context, archive io.Reader) ([]imageload.Image, error) {
		return load(ctx, store, archive)
	}, func(context.Context) ([]imageload.Image, error) { return describeImages(store.List()), nil })
}

// load performs `mullion load` on a host.
func load(ctx context.Context, images *image.Store, archive io.Reader) ([]imageload.Image, error) {
	loaded, err := images.Load(ctx, archive)
	if err != nil {
		return nil, err
	}
	return describeImages(loaded), nil
}

func describeImages(images []*image.Image) []imageload.Image {
	var out []imageload.Image
	for _, img := range images {
		names := img.RepoTags
		if len(names) == 0 {
			names = []string{img.ID}
		}
		out = append(out, imageload.Image{Names: names, OS: img.OS, Arch: img.Arch, OSVersion: img.OSVersion,
			Size: img.Size, StandIn: img.StandIn, NoBase: img.NoBase})
	}
	return out
}
