// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
)

// spelling finds how a path is already spelled in the layers below and in the
// layer being unpacked, so that Files/Windows/System32/x lands in the
// windows/system32 of the base: overlayfs compares names byte by byte, Windows
// does not. One spelling serves one unpacking and is not safe for concurrent
// use.
type spelling struct {
	below []string                     // absolute directories, lowest first
	dirs  map[string]map[string]string // spelled directory -> folded name -> spelled name
}

func newSpelling(below []string) *spelling {
	return &spelling{below: below, dirs: map[string]map[string]string{}}
}

// path spells all components and remembers new ones.
func (s *spelling) path(parts []string) string {
	dir := "."
	for _, p := range parts {
		dir = path.Join(dir, s.name(dir, p))
	}
	return dir
}

// name spells one component of an already spelled directory.
func (s *spelling) name(dir, name string) string {
	known := s.list(dir)
	key := fold(name)
	if have, ok := known[key]; ok {
		return have
	}
	known[key] = name
	return name
}

// lookup is like path but records nothing: it spells the known part of a path
// and reports whether all of it is known.
func (s *spelling) lookup(parts []string) (string, bool) {
	dir, known := ".", true
	for _, p := range parts {
		if known {
			have, ok := s.list(dir)[fold(p)]
			if known = ok; ok {
				p = have
			}
		}
		dir = path.Join(dir, p)
	}
	return dir, known
}

func (s *spelling) list(dir string) map[string]string {
	if known, ok := s.dirs[dir]; ok {
		return known
	}
	known := map[string]string{}
	for _, root := range s.below {
		for _, name := range readNames(root, dir) {
			known[fold(name)] = name
		}
	}
	s.dirs[dir] = known
	return known
}

// readNames lists a directory of a lower layer through os.Root, so that a
// symbolic link in it cannot lead outside. What cannot be read has no names:
// the worst outcome is a second spelling.
func readNames(root, dir string) []string {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil
	}
	defer r.Close() // opened for reading
	d, err := r.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close() // opened for reading
	names, err := d.Readdirnames(-1)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return names
}

// openBelow opens the topmost lower layer's regular file of that spelling, for
// hard links into lower layers.
func (s *spelling) openBelow(name string) (*os.File, error) {
	for _, v := range slices.Backward(s.below) {
		f, err := openRegular(v, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return f, err
	}
	return nil, fs.ErrNotExist
}

func openRegular(dir, name string) (*os.File, error) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close() // opened for reading
	st, err := r.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return r.Open(name)
}
