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
	below []*os.Root // lowest first; nil if it cannot be opened
	dirs  map[string]spelled
}

// spelled holds the names in a directory, of the layers below and of the layer itself.
type spelled struct {
	names map[string]string // folded -> as spelled
	below []int             // the layers below that have the directory
}

func newSpelling(below []string) *spelling {
	s := &spelling{dirs: map[string]spelled{}}
	for _, dir := range below {
		r, err := os.OpenRoot(dir)
		if err != nil {
			r = nil // it has no names: the worst outcome is a second spelling
		}
		s.below = append(s.below, r)
	}
	return s
}

// close closes the layers below.
func (s *spelling) close() {
	for _, r := range s.below {
		if r != nil {
			_ = r.Close() // only a handle
		}
	}
	s.below = nil
}

// name spells one component of an already spelled directory, and remembers it.
func (s *spelling) name(dir, name string) string {
	known := s.list(dir).names
	key := fold(name)
	if have, ok := known[key]; ok {
		return have
	}
	known[key] = name
	return name
}

// lookup spells a whole path as far as it is known, without recording it, and
// reports whether all of it is known.
func (s *spelling) lookup(parts []string) (string, bool) {
	dir, known := ".", true
	for _, p := range parts {
		if known {
			have, ok := s.list(dir).names[fold(p)]
			if known = ok; ok {
				p = have
			}
		}
		dir = path.Join(dir, p)
	}
	return dir, known
}

func (s *spelling) list(dir string) spelled {
	if known, ok := s.dirs[dir]; ok {
		return known
	}
	known := spelled{names: map[string]string{}}
	for _, i := range s.having(path.Dir(dir)) {
		names, err := readNames(s.below[i], dir)
		if err != nil {
			continue // as a layer that cannot be opened
		}
		known.below = append(known.below, i)
		for _, name := range names {
			known.names[fold(name)] = name
		}
	}
	s.dirs[dir] = known
	return known
}

// having returns the layers below that have a directory, which was listed before the
// directories in it. A layer without it has no content below it either and need not
// be searched.
func (s *spelling) having(dir string) []int {
	if known, ok := s.dirs[dir]; ok {
		return known.below
	}
	var all []int
	for i, r := range s.below {
		if r != nil {
			all = append(all, i)
		}
	}
	return all
}

// readNames lists a directory of a lower layer through os.Root, so that a
// symbolic link in it cannot lead outside.
func readNames(root *os.Root, dir string) ([]string, error) {
	d, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close() // opened for reading
	return d.Readdirnames(-1)
}

// openBelow opens the topmost lower layer's regular file of that spelling, for
// hard links into lower layers.
func (s *spelling) openBelow(name string) (*os.File, error) {
	for _, r := range slices.Backward(s.below) {
		if r == nil {
			continue
		}
		f, err := openRegular(r, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return f, err
	}
	return nil, fs.ErrNotExist
}

func openRegular(r *os.Root, name string) (*os.File, error) {
	st, err := r.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return r.Open(name)
}
