// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Load reads images from an archive: an OCI image layout or the output of
// `docker save`, as a tar, compressed or not. Images for other systems than
// this host's are an error.
func (s *Store) Load(ctx context.Context, r io.Reader) ([]*Image, error) {
	ar, err := s.spool(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("load archive: %w", err)
	}
	defer ar.remove()
	var out []*Image
	switch {
	case ar.has("index.json"):
		out, err = s.loadLayout(ctx, ar)
	case ar.has("manifest.json"):
		out, err = s.loadDocker(ctx, ar)
	default:
		err = fmt.Errorf("%w: neither index.json (OCI layout) nor manifest.json (docker save) is in it", ErrInvalid)
	}
	if err != nil {
		return nil, fmt.Errorf("load archive: %w", err)
	}
	return out, nil
}

// Annotations that carry an image's name in an OCI layout. The first is
// containerd's and full; the second is OCI's and often only a tag.
const (
	annotationContainerd = "io.containerd.image.name"
	annotationOCI        = "org.opencontainers.image.ref.name"
)

func (s *Store) loadLayout(ctx context.Context, ar *archive) ([]*Image, error) {
	raw, err := ar.read("index.json", s.cfg.Limits.MetadataBytes)
	if err != nil {
		return nil, err
	}
	index, err := decodeIndex(raw, s.cfg.Limits)
	if err != nil {
		return nil, err
	}
	docker, err := ar.dockerNames(s.cfg.Limits.MetadataBytes)
	if err != nil {
		return nil, err
	}
	var out []*Image
	for _, d := range index.Manifests {
		a := &assembly{src: &archiveSource{s, ar, nil}}
		ref, named := layoutName(d)
		if named {
			a.name, a.tags, a.digests = ref.String(), []string{ref.String()},
				[]string{ref.Name + "@" + d.Digest.String()}
		}
		if d, err = s.resolveLayout(ar, d); err != nil {
			return nil, err
		}
		if a.raw, err = ar.blob(d.Digest.String(), s.cfg.Limits.MetadataBytes); err != nil {
			return nil, err
		}
		if !named {
			if err := a.nameFrom(docker); err != nil {
				return nil, err
			}
		}
		img, err := s.assemble(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cmp.Or(a.name, d.Digest.String()), err)
		}
		out = append(out, img)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: index.json lists no image", ErrInvalid)
	}
	return out, nil
}

// resolveLayout follows nested indexes down to the manifest for this host.
// Their depth is bounded: an index cannot contain its own digest, but a chain
// of them could be long.
func (s *Store) resolveLayout(ar *archive, d v1.Descriptor) (v1.Descriptor, error) {
	const depth = 8
	for range depth {
		if !d.MediaType.IsIndex() {
			return d, nil
		}
		raw, err := ar.blob(d.Digest.String(), s.cfg.Limits.MetadataBytes)
		if err != nil {
			return d, err
		}
		if d, err = s.chooseFrom(raw); err != nil {
			return d, err
		}
	}
	return d, fmt.Errorf("%w: indexes nested more than %d deep", ErrInvalid, depth)
}

func layoutName(d v1.Descriptor) (Reference, bool) {
	for _, key := range []string{annotationContainerd, annotationOCI} {
		text := d.Annotations[key]
		// A bare word is a tag without a repository.
		if !strings.ContainsAny(text, ":/") {
			continue
		}
		if ref, err := ParseReference(text); err == nil && ref.Tag != "" {
			return ref, true
		}
	}
	return Reference{}, false
}

// dockerEntry is one image of docker save's manifest.json.
type dockerEntry struct {
	Config   string   `json:"Config"`
	RepoTags []string `json:"RepoTags"`
	Layers   []string `json:"Layers"`
}

// dockerNames maps config digests to the tags in manifest.json, which Docker
// 25 and later write beside an OCI layout.
func (ar *archive) dockerNames(limit int64) (map[string][]string, error) {
	if !ar.has("manifest.json") {
		return nil, nil
	}
	entries, err := ar.dockerManifest(limit)
	if err != nil {
		return nil, err
	}
	names := map[string][]string{}
	for _, e := range entries {
		if f, ok := ar.file(e.Config); ok {
			names[f.digest] = append(names[f.digest], e.RepoTags...)
		}
	}
	return names, nil
}

func (a *assembly) nameFrom(names map[string][]string) error {
	var m v1.Manifest
	if err := json.Unmarshal(a.raw, &m); err != nil {
		return fmt.Errorf("%w: manifest: %w", ErrInvalid, err)
	}
	return a.tag(names[m.Config.Digest.String()])
}

// tag gives the image names; a digest is known for each of them too.
func (a *assembly) tag(names []string) error {
	for _, n := range names {
		ref, err := ParseReference(n)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		if ref.Tag == "" {
			continue
		}
		a.name = ref.String()
		a.tags = append(a.tags, ref.String())
		a.digests = append(a.digests, ref.Name+"@"+digestOf(a.raw))
	}
	return nil
}

func (ar *archive) dockerManifest(limit int64) ([]dockerEntry, error) {
	raw, err := ar.read("manifest.json", limit)
	if err != nil {
		return nil, err
	}
	var entries []dockerEntry
	if err := decodeOne(raw, &entries); err != nil {
		return nil, fmt.Errorf("%w: manifest.json: %w", ErrInvalid, err)
	}
	return entries, nil
}

// loadDocker makes a manifest for each image, since docker save does not write one.
func (s *Store) loadDocker(ctx context.Context, ar *archive) ([]*Image, error) {
	entries, err := ar.dockerManifest(s.cfg.Limits.MetadataBytes)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%w: manifest.json lists no image", ErrInvalid)
	}
	var out []*Image
	for _, e := range entries {
		a := &assembly{}
		m := v1.Manifest{SchemaVersion: 2, MediaType: types.DockerManifestSchema2, Layers: []v1.Descriptor{}}
		src := &archiveSource{s, ar, map[string]string{}}
		describe := func(name string, mt types.MediaType) (v1.Descriptor, error) {
			f, ok := ar.file(name)
			if !ok {
				return v1.Descriptor{}, fmt.Errorf("%w: %s is missing", ErrInvalid, name)
			}
			src.names[f.digest] = name
			h, err := v1.NewHash(f.digest)
			return v1.Descriptor{MediaType: mt, Size: f.size, Digest: h}, err
		}
		if m.Config, err = describe(e.Config, types.DockerConfigJSON); err != nil {
			return nil, err
		}
		if len(e.Layers) > s.cfg.Limits.Layers {
			return nil, fmt.Errorf("%w: %d layers, at most %d can be stacked", ErrInvalid, len(e.Layers),
				s.cfg.Limits.Layers)
		}
		layers, err := s.dockerLayers(ar, e, describe)
		if err != nil {
			return nil, err
		}
		m.Layers = layers
		if a.raw, err = json.Marshal(m); err != nil {
			return nil, err
		}
		a.src = src
		if err := a.tag(e.RepoTags); err != nil {
			return nil, err
		}
		img, err := s.assemble(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cmp.Or(a.name, e.Config), err)
		}
		out = append(out, img)
	}
	return out, nil
}

// dockerLayers describes the layers of an entry. docker save leaves foreign
// layers out: then the list in manifest.json, or the file, is missing, and the
// config's diff IDs still count them.
func (s *Store) dockerLayers(ar *archive, e dockerEntry, describe func(string, types.MediaType) (v1.Descriptor,
	error)) ([]v1.Descriptor, error) {
	raw, err := ar.read(e.Config, s.cfg.Limits.MetadataBytes)
	if err != nil {
		return nil, err
	}
	var c v1.ConfigFile
	if err := decodeOne(raw, &c); err != nil {
		return nil, fmt.Errorf("%w: config: %w", ErrInvalid, err)
	}
	absent := max(len(c.RootFS.DiffIDs)-len(e.Layers), 0)
	layers := []v1.Descriptor{}
	for i := range absent {
		layers = append(layers, v1.Descriptor{MediaType: types.DockerForeignLayer, Digest: c.RootFS.DiffIDs[i]})
	}
	for i, name := range e.Layers {
		d, err := describe(name, types.DockerUncompressedLayer)
		if errors.Is(err, ErrInvalid) && i == len(layers)-absent && absent+i < len(c.RootFS.DiffIDs) && !ar.has(name) {
			d, err = v1.Descriptor{MediaType: types.DockerForeignLayer, Digest: c.RootFS.DiffIDs[absent+i]}, nil
		}
		if err != nil {
			return nil, err
		}
		layers = append(layers, d)
	}
	return layers, nil
}

// archiveSource takes blobs from a spooled archive.
type archiveSource struct {
	store *Store
	ar    *archive
	names map[string]string // digest -> file; nil for an OCI layout
}

func (a *archiveSource) fetch(_ context.Context, d v1.Descriptor) error {
	digest := d.Digest.String()
	name := a.names[digest]
	if a.names == nil {
		name = layoutBlob(digest)
	}
	f, ok := a.ar.file(name)
	if !ok {
		return fmt.Errorf("%w: blob %s is not in the archive", ErrInvalid, digest)
	}
	if f.digest != digest || f.size != d.Size {
		return fmt.Errorf("%w: blob %s has %d bytes and digest %s, expected %d bytes", ErrInvalid, digest, f.size,
			f.digest, d.Size)
	}
	// It was hashed while it was spooled, and no other process can reach it.
	return a.store.blobs.link(digest, f.path)
}
