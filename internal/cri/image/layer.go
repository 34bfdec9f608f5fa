// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/fault"
)

// chainKey names a layer by the layers below it and by its own content, because the
// spelling of its paths depends on both (see spelling).
func chainKey(parent, diffID string) string { return digestOf([]byte(parent + " " + diffID)) }

// shortID returns the directory name of a layer: 64 bits of its key. It is short
// because the mount option lowerdir, a list of such paths, must fit into one
// page; the full key in the record guards against a collision.
func shortID(key string) string { return key[len("sha256:"):][:16] }

func (s *Store) layerDir(id string) string    { return filepath.Join(s.dir, "l", id) }
func (s *Store) layerRecord(id string) string { return filepath.Join(s.dir, "m", id+".json") }

// loadLayer returns a complete layer, or nil.
func (s *Store) loadLayer(key string) (*layerRecord, error) {
	data, err := os.ReadFile(s.layerRecord(shortID(key)))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r layerRecord
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("read layer record %s: %w", shortID(key), err)
	}
	if r.Key != key {
		return nil, fmt.Errorf("layer %s is taken by %s", key, r.Key)
	}
	return &r, nil
}

// lockLayer waits until no other call unpacks the layer of the key, or the context ends.
func (s *Store) lockLayer(ctx context.Context, key string) (unlock func(), err error) {
	for {
		s.mu.Lock()
		other, busy := s.unpacking[key]
		if !busy {
			done := make(chan struct{})
			s.unpacking[key] = done
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.unpacking, key)
				s.mu.Unlock()
				close(done)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-other:
		}
	}
}

// addLayer unpacks the blob as the layer of the given key, unless it exists.
// Preconditions: the blob was verified, and the layer is locked (lockLayer).
func (s *Store) addLayer(ctx context.Context, key, diffID, blob string, below []string) (*layerRecord, error) {
	if r, err := s.loadLayer(key); err != nil || r != nil {
		return r, err
	}
	tmp, err := os.MkdirTemp(s.ingest(), "layer-*")
	if err != nil {
		return nil, fmt.Errorf("unpack layer: %w", err)
	}
	// After the rename below there is no directory to remove.
	defer os.RemoveAll(tmp) // Open removes the remains

	// A layer's own directory becomes the container's C:\ if it is the lowest.
	if err := os.Chmod(tmp, dirPerm); err != nil {
		return nil, fmt.Errorf("unpack layer: %w", err)
	}
	rec, err := s.unpackBlob(ctx, tmp, diffID, blob, below)
	if err != nil {
		return nil, fmt.Errorf("unpack layer %s: %w", blob, err)
	}
	rec.ID, rec.Key = shortID(key), key
	if err := SyncTree(tmp); err != nil {
		return nil, fmt.Errorf("unpack layer: %w", err)
	}
	if err := fault.Point(ctx, "image.layer.unpacked"); err != nil {
		return nil, err
	}
	dir := s.layerDir(rec.ID)
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("unpack layer: remove incomplete layer: %w", err)
	}
	if err := adopt(tmp, dir); err != nil {
		return nil, fmt.Errorf("unpack layer: %w", err)
	}
	if err := fault.Point(ctx, "image.layer.renamed"); err != nil {
		return nil, err
	}
	if err := durable.WriteDocument(s.layerRecord(rec.ID), rec); err != nil {
		return nil, fmt.Errorf("unpack layer: %w", err)
	}
	return rec, fault.Point(ctx, "image.layer.recorded")
}

// unpackBlob unpacks into dir, first as a Windows layer and, if it is not one, once
// more as a plain one, and checks the diff ID.
func (s *Store) unpackBlob(ctx context.Context, dir, diffID, blob string, below []string) (*layerRecord, error) {
	rec, err := s.unpackAs(ctx, shapeWindows, dir, diffID, blob, below)
	if !errors.Is(err, errMixed) {
		return rec, err
	}
	if err := emptyDir(dir); err != nil {
		return nil, err
	}
	return s.unpackAs(ctx, shapePlain, dir, diffID, blob, below)
}

func (s *Store) unpackAs(ctx context.Context, sh shape, dir, diffID, blob string,
	below []string) (*layerRecord, error) {
	name, err := s.blobs.path(blob)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() // a directory handle
	r, err := decompress(f)
	if err != nil {
		return nil, err
	}
	defer r.Close() // releases the decoder's memory

	m := &meter{limits: s.cfg.Limits, compressed: st.Size()}
	h := sha256.New()
	stream := &meteredReader{ctx: ctx, r: io.TeeReader(r, h), m: m}
	u := newUnpacker(root, below, m, s.cfg.UID, s.cfg.GID)
	u.shape = sh
	if err := u.run(ctx, stream); err != nil {
		return nil, err
	}
	// Data after the end mark belongs to the hash too.
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if got := "sha256:" + hex.EncodeToString(h.Sum(nil)); got != diffID {
		return nil, fmt.Errorf("%w: unpacked content is %s, the config says %s", ErrInvalid, got, diffID)
	}
	if err := u.own(root, "."); err != nil {
		return nil, err
	}
	return &layerRecord{
		DiffID:  diffID,
		Bytes:   m.bytes,
		Entries: m.entries,
		Shape:   u.shape.String(),
		Notes:   noteList(u.notes),
	}, nil
}

func noteList(counts map[string]int) []string {
	var out []string
	for reason, n := range counts {
		out = append(out, fmt.Sprintf("%d × %s", n, reason))
	}
	slices.Sort(out)
	return out
}

func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// meteredReader stops at the limits and when the context ends.
type meteredReader struct {
	ctx context.Context //nolint:containedctx // one call's reader, not a long-lived object
	r   io.Reader
	m   *meter
}

func (r *meteredReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.r.Read(p)
	if merr := r.m.stream(int64(n)); merr != nil {
		return 0, merr
	}
	return n, err
}
