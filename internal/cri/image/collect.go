// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/internal/logkey"
)

// orphanAge is how long blobs that no image needs are kept: an interrupted pull
// resumes from them. A day is more than the longest back-off of the kubelet (5
// minutes) and than a repair of a registry usually takes.
const orphanAge = 24 * time.Hour

// repair brings the directory into a state that the sequence of writes allows:
// see the package's documentation. Preconditions: no other goroutine uses s.
func (s *Store) repair() error {
	if err := emptyDir(s.ingest()); err != nil {
		return err
	}
	if err := s.repairLayers(); err != nil {
		return err
	}
	if err := s.readImages(); err != nil {
		return err
	}
	drop := func(name string, err error) error {
		s.log.Warn("image store: drop unreadable hold", logkey.File, name, logkey.Error, err)
		return removeDurably(name)
	}
	err := readRecords(filepath.Join(s.dir, "holds"), func(name string, h *hold) error {
		if h.Owner == "" || s.holdPath(h.Owner) != name {
			return errors.New("record does not belong to its file")
		}
		s.holds[h.Owner] = h
		return nil
	}, drop)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.collect()
}

// repairLayers removes layers without a record and records without a layer.
func (s *Store) repairLayers() error {
	complete := map[string]bool{}
	drop := func(name string, err error) error {
		s.log.Warn("image store: drop unreadable layer", logkey.File, name, logkey.Error, err)
		return removeDurably(name)
	}
	err := readRecords(filepath.Join(s.dir, "m"), func(name string, r *layerRecord) error {
		if _, err := parseDigest(r.Key); err != nil || shortID(r.Key) != r.ID || s.layerRecord(r.ID) != name {
			return errors.New("record does not belong to its file")
		}
		if st, err := os.Stat(s.layerDir(r.ID)); err != nil || !st.IsDir() {
			return fmt.Errorf("directory is missing: %w", fs.ErrNotExist)
		}
		complete[r.ID] = true
		return nil
	}, drop)
	if err != nil {
		return err
	}
	dirs, err := os.ReadDir(filepath.Join(s.dir, "l"))
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if !complete[d.Name()] {
			if err := os.RemoveAll(s.layerDir(d.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// readImages fills s.images with the complete images.
func (s *Store) readImages() error {
	drop := func(name string, err error) error {
		s.log.Warn("image store: drop incomplete image", logkey.File, name, logkey.Error, err)
		return removeDurably(name)
	}
	owner := map[string]*record{} // of each name
	err := readRecords(filepath.Join(s.dir, "images"), func(name string, r *record) error {
		if _, err := parseDigest(r.ID); err != nil || s.recordPath(r.ID) != name {
			return errors.New("record does not belong to its file")
		}
		for _, l := range r.Layers {
			if l.Own != "" {
				if _, err := os.Stat(s.layerRecord(l.Own)); err != nil {
					return err
				}
			}
			if l.Own == "" && !s.externalExists(l) {
				return fmt.Errorf("stand-in %s%s is gone", l.External, l.Base)
			}
		}
		s.images[r.ID] = r
		s.serial = max(s.serial, r.Serial)
		for _, n := range append(append([]string(nil), r.Tags...), r.Digests...) {
			if other := owner[n]; other == nil || other.Serial < r.Serial {
				owner[n] = r
			}
		}
		return nil
	}, drop)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.images {
		for _, other := range s.images {
			if other != r && other.Serial < r.Serial {
				if err := s.takeNames(other, r); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// externalExists reports whether all directories of a layer are there.
func (s *Store) externalExists(l layerID) bool {
	dirs := s.dirsOf(l)
	for _, d := range dirs {
		if st, err := os.Stat(d); err != nil || !st.IsDir() {
			return false
		}
	}
	return len(dirs) > 0
}

// collect removes layers and blobs that no image needs. Preconditions: mu is held.
func (s *Store) collect() error {
	layers, keep := map[string]bool{}, map[string]bool{}
	for _, r := range s.images {
		for _, l := range r.Layers {
			layers[l.Own] = true
		}
		keep[r.ID], keep[r.Manifest] = true, true
	}
	for _, h := range s.holds {
		for _, l := range h.Layers {
			layers[l] = true
		}
	}
	for k := range s.busy {
		keep[k] = true
		if strings.HasPrefix(k, "sha256:") {
			layers[shortID(k)] = true
		}
	}
	return errors.Join(s.collectLayers(layers), s.collectBlobs(keep))
}

func (s *Store) collectLayers(used map[string]bool) error {
	entries, err := os.ReadDir(filepath.Join(s.dir, "m"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || used[id] {
			continue
		}
		// The record first: a layer without one does not exist.
		if err := removeDurably(s.layerRecord(id)); err != nil {
			return fmt.Errorf("collect layer %s: %w", id, err)
		}
		if err := os.RemoveAll(s.layerDir(id)); err != nil {
			return fmt.Errorf("collect layer %s: %w", id, err)
		}
	}
	return nil
}

// collectBlobs removes blobs that no image needs and that are too old to be of
// use to the next attempt of a pull.
func (s *Store) collectBlobs(keep map[string]bool) error {
	return s.dropBlobs(func(digest string, age time.Duration) bool { return !keep[digest] && age >= orphanAge })
}

// needs reports whether an image or a running operation refers to a blob.
// Preconditions: mu is held.
func (s *Store) needs(digest string) bool {
	if s.busy[digest] > 0 || s.images[digest] != nil {
		return true
	}
	for _, r := range s.images {
		if r.Manifest == digest {
			return true
		}
	}
	return false
}

func (s *Store) dropBlobs(drop func(digest string, age time.Duration) bool) error {
	entries, err := os.ReadDir(s.blobs.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // gone already
		}
		if !drop("sha256:"+e.Name(), time.Since(info.ModTime())) {
			continue
		}
		if err := os.Remove(filepath.Join(s.blobs.dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("collect blob %s: %w", e.Name(), err)
		}
	}
	return nil
}

// FsInfo adds up the store's disk usage: unpacked layers as recorded, blobs as they
// are. Stand-ins are shared and do not count.
func (s *Store) FsInfo() (FsInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var info FsInfo
	err := readRecords(filepath.Join(s.dir, "m"), func(_ string, r *layerRecord) error {
		info.UsedBytes += uint64(max(r.Bytes, 0))
		info.InodesUsed += uint64(max(r.Entries, 0))
		return nil
	}, func(name string, err error) error { return fmt.Errorf("read %s: %w", name, err) })
	if err != nil {
		return FsInfo{}, err
	}
	for _, dir := range []string{s.blobs.dir, s.ingest()} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return FsInfo{}, err
		}
		for _, e := range entries {
			st, err := e.Info()
			if err != nil {
				continue // gone already
			}
			info.UsedBytes += uint64(max(st.Size(), 0))
			info.InodesUsed++
		}
	}
	return info, nil
}
