// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/mullion-k8s/mullion/internal/fault"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// parallelFetches bounds the layers fetched at once for one image: containerd's
// default for max_concurrent_downloads.
const parallelFetches = 3

// source is where an image's blobs come from: a registry or an archive.
type source interface {
	// fetch puts a blob into the store, verified. It is called for blobs that the store lacks.
	fetch(ctx context.Context, d v1.Descriptor) error
}

// assembly is one image on its way into the store.
type assembly struct {
	store   *Store
	src     source
	raw     []byte // the manifest
	name    string // a hint for the kind of the base
	tags    []string
	digests []string

	manifest *v1.Manifest
	config   *v1.ConfigFile
	standIn  int      // leading layers replaced by a stand-in
	kind     BaseKind // of the stand-in
	keys     []string // layer keys; empty for replaced layers
}

// assemble verifies, fetches and unpacks an image and records it.
func (s *Store) assemble(ctx context.Context, a *assembly) (*Image, error) {
	a.store = s
	if err := a.describe(ctx); err != nil {
		return nil, err
	}
	release := s.use(append(a.blobDigests(), a.keys...)...)
	defer release()

	rec := &record{
		ID:        a.manifest.Config.Digest.String(),
		Tags:      a.tags,
		Digests:   a.digests,
		Manifest:  digestOf(a.raw),
		Size:      int64(len(a.raw)) + a.manifest.Config.Size,
		Config:    a.config.Config,
		OS:        a.config.OS,
		Arch:      a.config.Architecture,
		OSVersion: a.config.OSVersion,
		Created:   a.config.Created.Time,
	}
	for _, l := range a.manifest.Layers {
		rec.Size += l.Size
	}
	if a.standIn > 0 {
		base := layerID{Base: a.kind}
		if !s.externalExists(base) {
			return nil, fmt.Errorf("image is based on Windows %s, which has no stand-in", a.kind)
		}
		rec.Layers = append(rec.Layers, base)
		rec.Notes = append(rec.Notes,
			fmt.Sprintf("the lowest %d layers are Microsoft's and are replaced by the stand-in of %s",
				a.standIn, a.kind))
	}
	if err := a.unpackAll(ctx, rec); err != nil {
		return nil, err
	}
	if err := s.blobs.put(rec.Manifest, int64(len(a.raw)), bytes.NewReader(a.raw)); err != nil {
		return nil, err
	}
	if err := fault.Point(ctx, "image.before-record"); err != nil {
		return nil, err
	}
	if err := s.save(rec); err != nil {
		return nil, err
	}
	s.log.InfoContext(ctx, "image stored", logkey.Image, a.name, logkey.Size, rec.Size)
	a.dropLayerBlobs()
	return s.Get(rec.ID)
}

// describe reads manifest and config and plans the layers. It fetches only the
// config.
func (a *assembly) describe(ctx context.Context) error {
	s := a.store
	m, err := decodeManifest(a.raw, s.cfg.Limits)
	if err != nil {
		return err
	}
	a.manifest = m
	id := m.Config.Digest.String()
	defer s.use(id)()
	if !s.blobs.has(id, m.Config.Size) {
		if err := a.src.fetch(ctx, m.Config); err != nil {
			return fmt.Errorf("config: %w", err)
		}
	}
	raw, err := s.blobs.read(id, s.cfg.Limits.MetadataBytes)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if a.config, err = decodeConfig(raw, len(m.Layers)); err != nil {
		return err
	}
	// An index was matched against the host. A manifest by itself is not, as in
	// containerd: the mismatch shows when a container is created. But an image
	// for another system is of no use here, and its layers could not be
	// distinguished from plain Windows ones.
	if a.config.OS != "windows" || a.config.Architecture != "" && a.config.Architecture != "amd64" {
		return errNoPlatform()
	}
	a.standIn, a.kind = baseLayers(m, a.config, a.name)
	parent := ""
	if a.standIn > 0 {
		parent = "stand-in " + string(a.kind)
	}
	a.keys = make([]string, len(m.Layers))
	for i := a.standIn; i < len(m.Layers); i++ {
		if foreign(m.Layers[i]) {
			return fmt.Errorf("%w: layer %d is not distributable, but lies above others that are", ErrInvalid, i)
		}
		parent = chainKey(parent, a.config.RootFS.DiffIDs[i].String())
		a.keys[i] = parent
	}
	return nil
}

// blobDigests returns the blobs that must not be collected while the image is made.
func (a *assembly) blobDigests() []string {
	out := []string{digestOf(a.raw), a.manifest.Config.Digest.String()}
	for _, l := range a.manifest.Layers[a.standIn:] {
		out = append(out, l.Digest.String())
	}
	return out
}

// unpackAll fetches layers in parallel and unpacks them in order, each as soon as
// it and the layers below are there.
func (a *assembly) unpackAll(ctx context.Context, rec *record) error {
	s := a.store
	below, err := a.baseDirs(ctx)
	if err != nil {
		return err
	}
	for _, l := range rec.Layers {
		below = append(below, s.dirsOf(l)...)
	}
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelFetches + 1) // and the unpacker
	ready := make([]chan struct{}, len(a.manifest.Layers))
	for i := range ready {
		ready[i] = make(chan struct{})
	}
	group.Go(func() error {
		for i := a.standIn; i < len(a.manifest.Layers); i++ {
			select {
			case <-gctx.Done():
				return gctx.Err()
			case <-ready[i]:
			}
			l, err := a.unpackOne(gctx, i, below)
			if err != nil {
				return fmt.Errorf("layer %d of %d: %w", i+1, len(a.manifest.Layers), err)
			}
			rec.Layers = append(rec.Layers, layerID{Own: l.ID})
			rec.Notes = append(rec.Notes, l.Notes...)
			below = append(below, s.layerDir(l.ID))
		}
		return nil
	})
	for i := a.standIn; i < len(a.manifest.Layers); i++ {
		group.Go(func() error {
			d := a.manifest.Layers[i]
			l, err := s.loadLayer(a.keys[i])
			if (err != nil || l == nil) && !s.blobs.has(d.Digest.String(), d.Size) {
				if err := a.src.fetch(gctx, d); err != nil {
					return fmt.Errorf("layer %d of %d: %w", i+1, len(a.manifest.Layers), err)
				}
			}
			close(ready[i])
			return nil
		})
	}
	err = group.Wait()
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if isSpace(err) {
		// Make room for others; the next attempt starts afresh.
		err = fmt.Errorf("%w (what was fetched is removed again)", err)
		a.dropLayerBlobs()
	}
	return err
}

func (a *assembly) unpackOne(ctx context.Context, i int, below []string) (*layerRecord, error) {
	unlock, err := a.store.lockLayer(ctx, a.keys[i])
	if err != nil {
		return nil, err
	}
	defer unlock()
	d := a.manifest.Layers[i]
	// The same layer may have been unpacked meanwhile, and its blob dropped.
	if !a.store.blobs.has(d.Digest.String(), d.Size) {
		if l, err := a.store.loadLayer(a.keys[i]); err != nil || l != nil {
			return l, err
		}
		if err := a.src.fetch(ctx, d); err != nil {
			return nil, err
		}
	}
	return a.store.addLayer(ctx, a.keys[i], a.config.RootFS.DiffIDs[i].String(), d.Digest.String(), below)
}

// baseDirs returns the directories that will lie below the image.
func (a *assembly) baseDirs(ctx context.Context) ([]string, error) {
	s := a.store
	if s.cfg.Base == nil {
		return nil, nil
	}
	build := s.cfg.HostBuild
	if b, err := winver.Parse(a.config.OSVersion); err == nil {
		build = b
	}
	dirs, err := s.cfg.Base(ctx, build)
	if err != nil {
		return nil, fmt.Errorf("prepare base of %s: %w", build, err)
	}
	return slices.Clip(dirs), nil
}

// dropLayerBlobs removes the compressed layers, which are of no use once they
// are unpacked. Failure only costs space until the next collection.
func (a *assembly) dropLayerBlobs() {
	s := a.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range a.manifest.Layers[a.standIn:] {
		digest := l.Digest.String()
		if s.busy[digest] > 1 {
			continue // another pull is about to unpack it
		}
		if p, err := s.blobs.path(digest); err == nil {
			if err := removeDurably(p); err != nil {
				s.log.Warn("image store: keep blob", logkey.File, p, logkey.Error, err)
			}
		}
	}
}

// use protects blobs and layers from collection until the returned function is
// called.
func (s *Store) use(keys ...string) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		s.busy[k]++
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, k := range keys {
			if s.busy[k]--; s.busy[k] == 0 {
				delete(s.busy, k)
			}
		}
	}
}

// decodeManifest parses and checks an image manifest.
func decodeManifest(raw []byte, limits Limits) (*v1.Manifest, error) {
	if int64(len(raw)) > limits.MetadataBytes {
		return nil, fmt.Errorf("%w: manifest of %d bytes", ErrInvalid, len(raw))
	}
	var m v1.Manifest
	if err := decodeOne(raw, &m); err != nil {
		return nil, fmt.Errorf("%w: manifest: %w", ErrInvalid, err)
	}
	if m.SchemaVersion != 2 || m.MediaType.IsIndex() {
		return nil, fmt.Errorf("%w: manifest of schema %d, media type %q", ErrInvalid, m.SchemaVersion, m.MediaType)
	}
	if len(m.Layers) > limits.Layers {
		return nil, fmt.Errorf("%w: %d layers, at most %d can be stacked", ErrInvalid, len(m.Layers), limits.Layers)
	}
	for _, d := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		if _, err := parseDigest(d.Digest.String()); err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
		if d.Size < 0 {
			return nil, fmt.Errorf("%w: manifest: size %d of %s", ErrInvalid, d.Size, d.Digest)
		}
	}
	if m.Config.Size > limits.MetadataBytes {
		return nil, fmt.Errorf("%w: config of %d bytes", ErrInvalid, m.Config.Size)
	}
	return &m, nil
}

// decodeConfig parses and checks an image config.
func decodeConfig(raw []byte, layers int) (*v1.ConfigFile, error) {
	var c v1.ConfigFile
	if err := decodeOne(raw, &c); err != nil {
		return nil, fmt.Errorf("%w: config: %w", ErrInvalid, err)
	}
	// Linux images are refused before their layers are counted.
	if c.OS != "windows" {
		return &c, nil
	}
	if len(c.RootFS.DiffIDs) != layers {
		return nil, fmt.Errorf("%w: config has %d diff IDs for %d layers", ErrInvalid, len(c.RootFS.DiffIDs), layers)
	}
	for _, d := range c.RootFS.DiffIDs {
		if _, err := parseDigest(d.String()); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
	}
	return &c, nil
}

// decodeOne decodes exactly one JSON value.
func decodeOne(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("trailing data")
	}
	return nil
}
