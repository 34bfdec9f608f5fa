// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// epoch returns the timestamp of everything in the image. It is not zero, because some
// tools print zero as a date without a year.
func epoch() time.Time { return time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) }

// user is the unprivileged user; internal/install runs the image as it.
const user = "65532:65532"

// part is the image of one platform.
type part struct {
	platform v1.Platform
	image    v1.Image
}

// newPart makes the image of one platform. bare is the program's name in an image without
// other files; "" makes the image of mullion.
func newPart(os, arch, program, bare string) (part, error) {
	p := v1.Platform{OS: os, Architecture: arch}
	layer, err := newLayer(program, arch, bare)
	if err != nil {
		return part{}, err
	}
	img, err := mutate.Append(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON),
		types.OCIManifestSchema1), mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: epoch()},
			CreatedBy: "make image"},
	})
	if err != nil {
		return part{}, fmt.Errorf("make image of %s: %w", p, err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return part{}, fmt.Errorf("make image of %s: %w", p, err)
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture, cfg.Created = os, arch, v1.Time{Time: epoch()}
	cfg.Config = v1.Config{
		User: user, Entrypoint: []string{"/mullion"}, WorkingDir: "/", Env: []string{"PATH=/"},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "mullion",
			"org.opencontainers.image.source":   "https://github.com/mullion-k8s/mullion",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if bare != "" {
		cfg.Config = v1.Config{User: user, Entrypoint: []string{"/" + bare}, WorkingDir: "/"}
	}
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		return part{}, fmt.Errorf("make image of %s: %w", p, err)
	}
	return part{p, img}, nil
}

// machines maps architectures to their ELF machine types.
func machines() map[string]elf.Machine {
	return map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
}

// layerFile is a file, or a directory if its name ends in a slash.
type layerFile struct {
	name    string
	mode    int64
	content []byte
}

// newLayer returns a layer with the program as /mullion, the CA certificates for
// registries, and /tmp, where Go's standard library may write if the root is not
// read-only.
func newLayer(program, arch, bare string) (v1.Layer, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", program, err)
	}
	if want, ok := machines()[arch]; !ok || f.Machine != want {
		return nil, fmt.Errorf("%s is a program for %s, not for %s", program, f.Machine, arch)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("%s needs a dynamic linker, and the image has none: build it with CGO_ENABLED=0",
				program)
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	files := []layerFile{
		{"etc/", 0o755, nil}, {"etc/ssl/", 0o755, nil}, {"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()}, // the first path that crypto/x509 tries
		{"tmp/", 0o1777, nil},
		{"mullion", 0o755, data},
	}
	if bare != "" {
		files = []layerFile{{bare, 0o755, data}}
	}
	for _, f := range files {
		h := &tar.Header{
			Typeflag: tar.TypeReg,
			Name:     f.name,
			Mode:     f.mode,
			Size:     int64(len(f.content)),
			ModTime:  epoch(),
			Format:   tar.FormatUSTAR,
		}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("write layer: %w", err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("write layer: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	content := b.Bytes()
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithMediaType(types.OCILayer))
}

// authorities returns Mozilla's CA certificates for web servers as PEM, in the
// version that go.mod pins. It omits authorities that are trusted only under
// conditions, which a file cannot express.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			// A Buffer does not fail.
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return b.Bytes()
}
