// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package kustomize

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// Built holds the objects that a kustomization makes.
type Built struct {
	File    string // the kustomization
	Objects []Object
	// The files of all resources and patches that took part.
	Resources, Patches []string
	Left               []string // what was left out: "FILE: … is remote, and is not fetched"
}

// Object is one object that a kustomization makes.
type Object struct {
	Tree map[string]any
	File string // the resource that it comes from, or the kustomization that generates it
}

// Build builds the kustomization of a folder. If that fails, Built tells at
// least what was left out, which may be the reason.
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
	if s.root != "" {
		// As Flux builds them: files may be anywhere in the checkout, nowhere else.
		// https://github.com/fluxcd/pkg/tree/main/kustomize/filesys
		options.LoadRestrictions = types.LoadRestrictionsNone
	}
	files := &readOnly{FileSystem: filesys.MakeFsOnDisk(), ctx: ctx, set: s, top: top}
	made, err := run(krusty.MakeKustomizer(options), files, dir)
	if err := ctx.Err(); err != nil {
		return out, err
	}
	if err != nil {
		return out, err
	}
	for _, r := range made.Resources() {
		object, err := s.object(dir, r)
		if err != nil {
			return out, err
		}
		out.Objects = append(out.Objects, object)
	}
	return out, nil
}

// object returns a resource that kustomize has made.
func (s *Set) object(dir string, r *resource.Resource) (Object, error) {
	from, err := r.GetOrigin()
	if err == nil {
		err = r.SetOrigin(nil)
	}
	if err != nil {
		return Object{}, err
	}
	text, err := r.MarshalJSON() // as kubectl reads it: a timestamp is a string
	if err != nil {
		return Object{}, err
	}
	var out Object
	if out.Tree, err = s.tree(text); err != nil || from == nil {
		return out, err
	}
	if path := cmp.Or(from.Path, from.ConfiguredIn); path != "" {
		out.File = filepath.Join(dir, path)
	}
	return out, nil
}

// tree returns the tree of an object. Overlays of one base have most objects in
// common, such as definitions of a megabyte: equal ones are in memory once.
func (s *Set) tree(text []byte) (map[string]any, error) {
	sum := sha256.Sum256(text)
	if known := s.trees[sum]; known != nil {
		return known, nil
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	if meta, _ := out["metadata"].(map[string]any); meta != nil {
		if annotations, ok := meta["annotations"].(map[string]any); ok && len(annotations) == 0 {
			delete(meta, "annotations") // there was nothing but the origin
		}
	}
	s.trees[sum] = out
	return out, nil
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

// collect gathers the patches of a kustomization and of those that it uses, and
// what is left out of them.
func (s *Set) collect(f *folder, out *Built, seen map[string]bool) {
	if f == nil || seen[f.dir] {
		return
	}
	seen[f.dir] = true
	out.Resources, out.Patches = append(out.Resources, f.resources...), append(out.Patches, f.patches...)
	for _, what := range f.left {
		out.Left = append(out.Left, f.file+": "+what)
	}
	for _, dir := range f.uses {
		s.collect(s.folders[dir], out, seen)
	}
}

// readOnly is the disk as kustomize sees it: its kustomizations are those that
// the set keeps, and nothing can be written.
type readOnly struct {
	filesys.FileSystem
	ctx context.Context
	set *Set
	top *folder
}

func (r *readOnly) ReadFile(path string) ([]byte, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	f := r.set.folders[filepath.Dir(path)]
	if f == nil || f.file != path {
		return r.set.readFile(path)
	}
	if f.problem != nil || f != r.top {
		return f.text, f.problem
	}
	var k map[string]any
	if err := yaml.Unmarshal(f.text, &k); err != nil || k == nil {
		return f.text, nil // kustomize will say what is wrong
	}
	list, _ := k["buildMetadata"].([]any)
	if !slices.Contains(list, any(types.OriginAnnotations)) {
		k["buildMetadata"] = append(list, types.OriginAnnotations)
	}
	return yaml.Marshal(k)
}

var errReadOnly = errors.New("nothing may be written")

func (r *readOnly) Create(string) (filesys.File, error) { return nil, errReadOnly }
func (r *readOnly) Mkdir(string) error                  { return errReadOnly }
func (r *readOnly) MkdirAll(string) error               { return errReadOnly }
func (r *readOnly) RemoveAll(string) error              { return errReadOnly }
func (r *readOnly) WriteFile(string, []byte) error      { return errReadOnly }
