// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/mullion-k8s/mullion/internal/imageload"
)

// platform is that of the host's images.
const platform = "linux/amd64"

// serveImages stores the images that `mullion load` sends.
func serveImages(ctx context.Context) error {
	l, err := imageload.Listen(filepath.Join(nodeDir, "images.sock"))
	if err != nil {
		return err
	}
	return imageload.Serve(ctx, l, load)
}

// load gives an archive to containerd. It is spooled, because it is read twice.
func load(ctx context.Context, archive io.Reader) (_ []imageload.Image, err error) {
	f, err := os.CreateTemp("/var/lib", "load-*.tar")
	if err != nil {
		return nil, fmt.Errorf("keep archive: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if _, err := io.Copy(f, archive); err != nil {
		return nil, fmt.Errorf("keep archive: %w", err)
	}
	images, err := imageload.InspectFile(f.Name())
	if err != nil {
		return nil, err
	}
	var own []imageload.Image
	for _, i := range images {
		if i.OS == "linux" && (i.Arch == "amd64" || i.Arch == "") {
			own = append(own, i)
		}
	}
	if len(own) == 0 {
		return nil, errors.New("no image in the archive is for " + platform)
	}
	if err := ctr(ctx, "images", "import", "--platform", platform, f.Name()); err != nil {
		return nil, err
	}
	return own, nil
}
