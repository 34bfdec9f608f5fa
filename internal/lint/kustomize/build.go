// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package kustomize

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/openapi"
)

// Built holds the objects that a kustomization makes.
type Built struct {
	File    string // the kustomization
	Objects []Object
	// The files of all resources and patches that took part.
	Resources, Patches []string
	Left               []string // omissions: "FILE: … is remote, and is not fetched"

	patched bool // some need kustomize's own schema
}

// Object is one object that a kustomization makes.
type Object struct {
	Tree map[string]any
	File string // the resource that it comes from, or the kustomization that generates it
	// It is generated of files that are not all here, such as secrets.
	Partial bool
}

// Build builds the kustomization of a folder. If that fails, Built at least
// lists the omissions, which may be the reason.
func (s *Set) Build(ctx context.Context, dir string) (Built, error) {
	dir, err := realPath(dir)
	if err != nil {
		return Built{}, err
	}
	top := s.folders[dir]
	if top == nil {
		return Built{}, fmt.Errorf("%s has no kustomization", dir)
	}
	out := Built{File: top.file}
	s.collect(top, &out, map[string]bool{})
	if top.empty {
		return out, nil
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified // as the kustomization has it, without a warning in the log
	if s.loose() {
		options.LoadRestrictions = types.LoadRestrictionsNone // readFile has the limits
	}
	s.prepare(ctx, out)
	files := &readOnly{FileSystem: filesys.MakeFsOnDisk(), ctx: ctx, set: s}
	made, err := run(krusty.MakeKustomizer(options), files, dir)
	if err := ctx.Err(); err != nil {
		return out, err
	}
	if err != nil {
		return out, err
	}
	resources := made.Resources()
	out.Objects = make([]Object, len(resources))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, r := range resources {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			object, err := s.object(r)
			out.Objects[i] = object
			return err
		})
	}
	return out, g.Wait()
}

// prepare does in parallel two steps that kustomize would do in sequence: it
// marks the resources, and reads the schema that patches need.
func (s *Set) prepare(ctx context.Context, of Built) {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	if of.patched {
		g.Go(func() error {
			openapi.Schema()
			return nil
		})
	}
	for _, path := range of.Resources {
		s.mu.Lock()
		known := s.marked[path] != nil
		s.mu.Unlock()
		if known || slices.Contains(of.Patches, path) {
			continue
		}
		g.Go(func() error {
			text, err := s.readFile(path)
			if err != nil || ctx.Err() != nil {
				return nil // kustomize reads it again and reports the error
			}
			text = mark(text, path)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.marked[path] = text
			return nil
		})
	}
	_ = g.Wait() // no function fails
}

// object returns a resource that kustomize has made.
func (s *Set) object(r *resource.Resource) (Object, error) {
	node := r.YNode()
	return s.tree(appendNode(nil, node), func() (map[string]any, error) {
		if plain, ok := plainTree(node); ok {
			out, _ := plain.(map[string]any)
			return out, nil
		}
		text, err := r.MarshalJSON() // as kubectl reads it: a timestamp is a string
		if err != nil {
			return nil, err
		}
		var out map[string]any
		err = json.Unmarshal(text, &out)
		return out, err
	})
}

// tree returns an object. Overlays of one base have most objects in common, such as
// definitions of a megabyte: equal ones are made, and in memory, once.
func (s *Set) tree(content []byte, read func() (map[string]any, error)) (Object, error) {
	sum := sha256.Sum256(content)
	s.mu.Lock()
	known, ok := s.trees[sum]
	s.mu.Unlock()
	if ok {
		return known, nil
	}
	var out Object
	var err error
	if out.Tree, err = read(); err != nil {
		return Object{}, err
	}
	if out.File = takeOrigin(out.Tree); out.File == "" {
		out.File, out.Partial = s.generator(out.Tree)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trees[sum] = out
	return out, nil
}

// generator returns the kustomization that generates an object, to whose name
// kustomize has added a hash, and maybe more, and whether files of it are missing.
// file is "" if there is no generator.
func (s *Set) generator(object map[string]any) (file string, partial bool) {
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	longest := ""
	for _, f := range s.folders {
		for _, g := range f.generates {
			if strings.Contains(name, g) && (len(g) > len(longest) || len(g) == len(longest) && f.file < file) {
				file, longest, partial = f.file, g, slices.Contains(f.partial, g)
			}
		}
	}
	return file, partial
}

// run builds. kustomize panics at some input.
func run(k *krusty.Kustomizer, files filesys.FileSystem, dir string) (made resmap.ResMap, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("kustomize gave up: %v", p)
		}
	}()
	return k.Run(files, dir)
}

// collect gathers the patches and omissions of a kustomization and of the
// kustomizations that it uses.
func (s *Set) collect(f *folder, out *Built, seen map[string]bool) {
	if f == nil || seen[f.dir] {
		return
	}
	seen[f.dir] = true
	out.Resources, out.Patches = append(out.Resources, f.resources...), append(out.Patches, f.patches...)
	out.patched = out.patched || f.patched
	for _, what := range f.left {
		out.Left = append(out.Left, f.file+": "+what)
	}
	for _, dir := range f.uses {
		s.collect(s.folders[dir], out, seen)
	}
}

// readOnly is the disk as kustomize sees it: its kustomizations come from the
// set, resources are marked, and writes fail.
type readOnly struct {
	filesys.FileSystem
	ctx context.Context
	set *Set
}

func (r *readOnly) ReadFile(path string) ([]byte, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	f := r.set.folders[filepath.Dir(path)]
	if f != nil && f.file == path {
		return f.text, f.problem
	}
	text, err := r.set.readFile(path)
	if err != nil {
		return nil, err
	}
	at, err := realPath(path)
	if err != nil {
		return nil, err
	}
	r.set.mu.Lock()
	defer r.set.mu.Unlock()
	if marked := r.set.marked[at]; marked != nil {
		return marked, nil
	}
	return text, nil
}

var errReadOnly = errors.New("nothing may be written")

func (r *readOnly) Create(string) (filesys.File, error) { return nil, errReadOnly }
func (r *readOnly) Mkdir(string) error                  { return errReadOnly }
func (r *readOnly) MkdirAll(string) error               { return errReadOnly }
func (r *readOnly) RemoveAll(string) error              { return errReadOnly }
func (r *readOnly) WriteFile(string, []byte) error      { return errReadOnly }
