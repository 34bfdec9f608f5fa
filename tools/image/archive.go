// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mullion-k8s/mullion/internal/durable"
)

// write writes the archive. The reference names the index of all platforms; for
// docker load it names the first one.
func write(out, tag string, parts []part) (digest string, err error) {
	full, short, err := names(tag)
	if err != nil {
		return "", err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	files := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}
	for i, p := range parts {
		index = mutate.AppendManifests(index,
			mutate.IndexAddendum{Add: p.image, Descriptor: v1.Descriptor{Platform: &p.platform}})
		docker, err := blobs(files, p.image)
		if err != nil {
			return "", err
		}
		if i > 0 {
			continue
		}
		docker.RepoTags = []string{tag}
		if files["manifest.json"], err = json.Marshal([]dockerImage{docker}); err != nil {
			return "", fmt.Errorf("write manifest.json: %w", err)
		}
	}
	raw, err := index.RawManifest()
	if err != nil {
		return "", fmt.Errorf("write index: %w", err)
	}
	named, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("write index: %w", err)
	}
	files[blob(named)] = raw
	top := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{{
		MediaType: types.OCIImageIndex, Size: int64(len(raw)), Digest: named,
		// The annotations of containerd and of the specification.
		Annotations: map[string]string{"io.containerd.image.name": full, "org.opencontainers.image.ref.name": short},
	}}}
	if files["index.json"], err = json.Marshal(top); err != nil {
		return "", fmt.Errorf("write index.json: %w", err)
	}
	data, err := archive(files)
	if err != nil {
		return "", err
	}
	return named.String(), durable.WriteFile(out, data, 0o644)
}

// names returns the full name of a reference, including the default registry host, and
// its tag. Kubelets use the full name in requests to their runtime.
func names(tag string) (full, short string, err error) {
	ref, err := reference.ParseNormalizedNamed(tag)
	if err != nil {
		return "", "", fmt.Errorf("reference %q: %w", tag, err)
	}
	tagged, ok := ref.(reference.NamedTagged)
	if !ok {
		return "", "", fmt.Errorf("reference %q: want a tag", tag)
	}
	return ref.String(), tagged.Tag(), nil
}

// dockerImage is an entry of manifest.json, as docker save writes it since 25.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func blob(h v1.Hash) string { return path.Join("blobs", h.Algorithm, h.Hex) }

// blobs adds the parts of an image.
func blobs(files map[string][]byte, img v1.Image) (out dockerImage, err error) {
	manifest, err := img.RawManifest()
	if err != nil {
		return out, fmt.Errorf("write manifest: %w", err)
	}
	digest, err := img.Digest()
	if err != nil {
		return out, fmt.Errorf("write manifest: %w", err)
	}
	files[blob(digest)] = manifest
	config, err := img.RawConfigFile()
	if err != nil {
		return out, fmt.Errorf("write configuration: %w", err)
	}
	name, err := img.ConfigName()
	if err != nil {
		return out, fmt.Errorf("write configuration: %w", err)
	}
	files[blob(name)], out.Config = config, blob(name)
	layers, err := img.Layers()
	if err != nil {
		return out, fmt.Errorf("write layers: %w", err)
	}
	for _, l := range layers {
		h, err := l.Digest()
		if err != nil {
			return out, fmt.Errorf("write layer: %w", err)
		}
		r, err := l.Compressed()
		if err != nil {
			return out, fmt.Errorf("write layer: %w", err)
		}
		data, err := io.ReadAll(r)
		if err == nil {
			err = r.Close()
		}
		if err != nil {
			return out, fmt.Errorf("write layer: %w", err)
		}
		files[blob(h)] = data
		out.Layers = append(out.Layers, blob(h))
	}
	return out, nil
}

// archive returns a tar archive of the files, sorted by name.
func archive(files map[string][]byte) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg,
			Name:     name,
			Mode:     0o644,
			Size:     int64(len(files[name])),
			ModTime:  epoch(),
			Format:   tar.FormatUSTAR,
		})
		if err == nil {
			_, err = w.Write(files[name])
		}
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write archive: %w", err)
	}
	return b.Bytes(), nil
}
