// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"os"
	"path"
)

// openDir is a directory of the layer being unpacked that is open.
type openDir struct {
	name string // from the layer's root, as spelled there; "." is the root
	key  string // its last component, folded
	root *os.Root
}

// join returns the name of an entry of the directory.
func (d openDir) join(base string) string { return path.Join(d.name, base) }

// openPath is the way from the layer's root to the directory of the current entry.
// All directories on it stay open, because entries of one directory follow each other in
// a layer: the kernel then walks one component for an entry, however deep it lies.
type openPath struct {
	dirs []openDir // the first is the root, which others close
}

func newOpenPath(root *os.Root) *openPath {
	return &openPath{dirs: []openDir{{name: ".", root: root}}}
}

// last returns the directory at the end of the path.
func (p *openPath) last() openDir { return p.dirs[len(p.dirs)-1] }

// shared cuts the path back to its common prefix with the components, and returns the
// prefix's length.
func (p *openPath) shared(parts []string) int {
	n := 0
	for n < len(parts) && n+1 < len(p.dirs) && p.dirs[n+1].key == fold(parts[n]) {
		n++
	}
	for _, d := range p.dirs[n+1:] {
		_ = d.root.Close() // only a handle
	}
	p.dirs = p.dirs[:n+1]
	return n
}

// descend appends a directory that exists in the last one.
func (p *openPath) descend(base string) error {
	at := p.last()
	root, err := at.root.OpenRoot(base)
	if err != nil {
		return err
	}
	p.dirs = append(p.dirs, openDir{at.join(base), fold(base), root})
	return nil
}

// close closes all but the layer's root.
func (p *openPath) close() { p.shared(nil) }
