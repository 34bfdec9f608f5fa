// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/cri/mount"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/winsys/winpath"
)

// places finds the places of a container's volumes. A volume may be inside another one, whose
// files then count, not those of the image below it. The higher volumes must come first.
//
// Windows' bind filter makes nothing in the other volume, and works if that is read-only
// (learn.microsoft.com, "Overview of the Bindlink API": anchorless links). Linux needs a
// directory or file to mount on, so it is made there, whatever the volume is for the container.
type places struct {
	drive   *os.Root // drive C of the container
	volumes []volume
}

// place is where a volume is mounted.
type place struct {
	root *os.Root // drive C, or another volume
	base string   // where that is mounted on drive C; empty for drive C
	rel  string   // in root, without links
}

// path is the place on drive C.
func (p place) path() string { return path.Join(p.base, p.rel) }

// volume is one that has its place.
type volume struct {
	windows string // its path as the pod writes it
	path    string
	root    *os.Root // its files; nil if it is a file
}

// find finds the place for a Windows path.
func (p *places) find(windows string) (place, error) {
	deepest := slices.Backward(p.volumes)
	for _, v := range deepest {
		if rest, ok := mount.Beneath(v.windows, windows); ok {
			return v.find(windows, rest)
		}
	}
	rel, err := winpath.ResolveIn(p.drive, windows)
	if err != nil {
		return place{}, invalid{fmt.Errorf("mount at %q: %w", windows, err)}
	}
	if rel == "." {
		return place{}, invalid{errors.New("destination path can not be C drive")}
	}
	for _, v := range deepest {
		if rest, ok := strings.CutPrefix(rel, v.path+"/"); ok { // the image has a link to it
			return v.find(windows, rest)
		}
	}
	return place{root: p.drive, rel: rel}, nil
}

// find finds the place for a Windows path whose end, rest, is in the volume.
func (v volume) find(windows, rest string) (place, error) {
	if v.root == nil {
		return place{}, invalid{fmt.Errorf("mount at %q: %q is a file", windows, v.windows)}
	}
	rel, err := winpath.ResolveIn(v.root, `\`+rest)
	if err == nil && rel == "." {
		err = errors.New("a link leads to the volume itself")
	}
	if err != nil {
		return place{}, invalid{fmt.Errorf("mount at %q in the volume at %q: %w", windows, v.windows, err)}
	}
	return place{v.root, v.path, rel}, nil
}

// add notes that a volume is at a place.
func (p *places) add(at place, windows, source string) error {
	v := volume{windows: windows, path: at.path()}
	info, err := os.Stat(source)
	if err == nil && info.IsDir() {
		v.root, err = os.OpenRoot(source)
	}
	if err != nil {
		return fmt.Errorf("mount at %q: %w", windows, mount.WithoutPath(err))
	}
	p.volumes = append(p.volumes, v)
	return nil
}

func (p *places) close() {
	_ = p.drive.Close() // opened for look-ups
	for _, v := range p.volumes {
		if v.root != nil {
			_ = v.root.Close() // likewise
		}
	}
}

// makeVolumePlace makes the place for a source. What the image has in the place of a file or directory
// gives way to a source of the other kind, as on Windows; what another volume has does not.
func (s *Server) makeVolumePlace(at place, source string, sb store.Sandbox) error {
	err := s.makePlace(at.root, at.rel, source, sb)
	if !errors.Is(err, mount.ErrOtherKind) || at.base != "" {
		return err
	}
	if err := at.root.RemoveAll(at.rel); err != nil {
		return err
	}
	return s.makePlace(at.root, at.rel, source, sb)
}
