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
	"slices"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/internal/host/imageload"
)

// platform is the platform of the host's images.
const platform = "linux/amd64"

// imageStore is containerd's.
type imageStore struct{ tools tools }

// serve stores the images that `mullion load` sends.
func (s imageStore) serve(ctx context.Context) error {
	l, err := imageload.Listen(filepath.Join(nodeDir, "images.sock"))
	if err != nil {
		return err
	}
	return imageload.Serve(ctx, l, s.load, s.list)
}

// list lists containerd's images.
func (s imageStore) list(ctx context.Context) ([]imageload.Image, error) {
	table, err := s.tools.ctr(ctx, "images", "list")
	if err != nil {
		return nil, err
	}
	return parseImages(string(table)), nil
}

// parseImages reads the table of `ctr images list`: REF, TYPE, DIGEST, SIZE as "1.2 MiB",
// PLATFORMS, LABELS (containerd v2.4.2 cmd/ctr/commands/images/images.go). The CRI
// plugin lists each image by its ID, too.
func parseImages(table string) []imageload.Image {
	units := map[string]float64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
	var out []imageload.Image
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 6 || strings.HasPrefix(f[0], "sha256:") || strings.Contains(f[0], "@sha256:") {
			continue
		}
		size, err := strconv.ParseFloat(f[3], 64)
		if err != nil {
			continue // the heading, or a warning
		}
		out = append(out, imageload.Image{Names: []string{f[0]}, OS: "linux", Arch: "amd64",
			Size: int64(size * units[f[4]])})
	}
	return out
}

// load gives an archive to containerd. It is spooled, because it is read twice.
func (s imageStore) load(ctx context.Context, archive io.Reader) (_ []imageload.Image, err error) {
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
	if _, err := s.tools.ctr(ctx, "images", "import", "--platform", platform, f.Name()); err != nil {
		return nil, err
	}
	all, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	for i, image := range own {
		for _, stored := range all {
			if slices.Contains(image.Names, stored.Names[0]) {
				own[i].Size = stored.Size
			}
		}
	}
	return own, nil
}
