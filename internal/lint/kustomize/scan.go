// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package kustomize builds kustomizations in memory, with kustomize's own
// library. It only reads files: it doesn't fetch remote resources or run
// plugins or other programs, and in a checkout no file outside of it is read.
package kustomize

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/lint/checkout"
)

// maxFileBytes bounds the files of a kustomization.
const maxFileBytes = 4 << 20

// Set holds the kustomizations of a run, and the kustomizations that they use.
type Set struct {
	root    string   // the checkout: no file outside of it is read; "" outside of a checkout
	within  []string // without a checkout, folders in which kustomizations may use each other's files
	folders map[string]*folder
	used    map[string]bool   // folders that another kustomization uses
	files   map[string]bool   // files that a kustomization names
	instead map[string][]byte // see Replace

	mu     sync.Mutex
	marked map[string][]byte            // guarded by mu; of files, see mark
	trees  map[[sha256.Size]byte]Object // guarded by mu; the built objects by their text
}

// folder is a folder with a kustomization.
type folder struct {
	dir, file string
	text      []byte // as kustomize is to read it
	component bool
	uses      []string // the folders below it in the tree of kustomizations
	resources []string // files
	patches   []string // files
	generates []string // names of ConfigMaps and Secrets
	partial   []string // the names among generates whose files are missing
	patched   bool     // it has patches, and no custom schema
	left      []string // the omissions, with reasons
	empty     bool     // no resource remains to build
	problem   error    // why the kustomization cannot be read
}

// File returns the path of the kustomization of a folder, or "" if it does not have one.
func File(dir string) string {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	return ""
}

// Read reads the kustomizations of folders, and all that these use. Outside of a
// checkout, files may be anywhere in the folders that within names.
func Read(ctx context.Context, dirs, within []string) (*Set, error) {
	s := &Set{
		folders: map[string]*folder{},
		used:    map[string]bool{},
		files:   map[string]bool{},
		instead: map[string][]byte{},
		marked:  map[string][]byte{},
		trees:   map[[sha256.Size]byte]Object{},
	}
	for _, dir := range within {
		s.within = append(s.within, checkout.Real(dir))
	}
	for _, dir := range dirs {
		dir, err := realPath(dir)
		if err != nil {
			return nil, err
		}
		if s.root == "" {
			s.root = checkout.Root(dir)
		}
		if err := s.read(ctx, dir); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// realPath returns the absolute path without symbolic links.
func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// loose reports whether kustomizations may use files that are not below them, as with
// kustomize's --load-restrictor=LoadRestrictionsNone. Repositories are built so, also by
// Flux: https://github.com/fluxcd/pkg/tree/main/kustomize/filesys
func (s *Set) loose() bool { return s.root != "" || len(s.within) > 0 }

// allows reports whether a file may be read.
func (s *Set) allows(path string) bool {
	switch {
	case s.root != "":
		return inside(s.root, path)
	case len(s.within) == 0:
		return true // kustomize itself allows only files below a kustomization
	}
	in := func(dir string) bool { return inside(dir, path) }
	return slices.ContainsFunc(s.within, in) || slices.ContainsFunc(slices.Collect(maps.Keys(s.folders)), in)
}

// inside reports whether a path is a folder, or in it.
func inside(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// readFile reads a file under the limits.
func (s *Set) readFile(path string) ([]byte, error) {
	path, err := realPath(path)
	if err != nil {
		return nil, err
	}
	if text, ok := s.instead[path]; ok {
		return text, nil
	}
	if !s.allows(path) {
		where := cmp.Or(s.root, strings.Join(s.within, ", "))
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is outside of %s", where)}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		err := fmt.Errorf("not a file of at most %d MiB", maxFileBytes>>20)
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return os.ReadFile(path)
}

// Replace makes later builds read a text instead of a file, or the file again
// if the text is nil.
func (s *Set) Replace(path string, text []byte) {
	at, err := realPath(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.marked, at)
	switch {
	case err != nil:
	case text == nil:
		delete(s.instead, at)
	default:
		s.instead[at] = text
	}
}

// read reads the kustomization of a folder, once.
func (s *Set) read(ctx context.Context, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.folders[dir] != nil || s.root != "" && !inside(s.root, dir) {
		return nil
	}
	f := &folder{dir: dir, file: File(dir)}
	if f.file == "" {
		return nil
	}
	s.folders[dir] = f
	s.files[f.file] = true
	if f.text, f.problem = s.readFile(f.file); f.problem != nil {
		return nil // Build reports it
	}
	var k types.Kustomization
	if err := k.Unmarshal(f.text); err != nil {
		return nil // kustomize will report the error
	}
	k.FixKustomization()
	f.component = k.Kind == types.ComponentKind
	s.resources(f, &k)
	// This replaces deprecated fields, about which kustomize would warn. It fails
	// if they contradict the new ones; kustomize will report that.
	_ = k.FixKustomizationPreMarshalling(below{dir: f.dir})
	s.others(f, &k)
	rest := k
	rest.TypeMeta, rest.BuildMetadata = types.TypeMeta{}, nil
	f.empty = len(f.left) > 0 && rest.CheckEmpty() != nil
	f.patched = len(k.Patches) > 0 && len(k.OpenAPI) == 0
	if rest.CheckEmpty() == nil {
		k.BuildMetadata = only(k.BuildMetadata, func(what string) bool { return what == types.ManagedByLabelOption })
	}
	if f.empty {
		k.BuildMetadata = []string{types.OriginAnnotations} // kustomize refuses an empty one
	}
	if text, err := yaml.Marshal(k); err == nil {
		f.text = text
	}
	for _, base := range f.uses {
		s.used[base] = true
		if err := s.read(ctx, base); err != nil {
			return err
		}
	}
	return nil
}

// below looks up files relative to a folder.
type below struct {
	filesys.FileSystem // nil: no other method is called
	dir                string
}

func (b below) ReadFile(path string) ([]byte, error) {
	_, err := os.Stat(filepath.Join(b.dir, path))
	return nil, err
}

// resources keeps the resources, bases and components that exist. kustomize
// would try to clone every other with git.
func (s *Set) resources(f *folder, k *types.Kustomization) {
	keep := func(path string) bool {
		at, err := realPath(filepath.Join(f.dir, path))
		switch {
		case err != nil && remote(path):
			f.left = append(f.left, path+" is remote, and is not fetched")
			return false
		case err != nil:
			f.left = append(f.left, path+" does not exist")
			return false
		}
		if info, err := os.Stat(at); err == nil && info.IsDir() {
			f.uses = append(f.uses, at)
		} else {
			s.files[at] = true
			f.resources = append(f.resources, at)
		}
		return true
	}
	k.Resources = only(k.Resources, keep)
	k.Components = only(k.Components, keep)
	resources := f.resources // the files below configure plugins
	inline := func(path string) bool {
		if strings.Contains(path, "\n") {
			if !builtin([]byte(path)) {
				f.left = append(f.left, "a plugin does not run")
				return false
			}
			return true
		}
		if !keep(path) {
			return false
		}
		text, err := s.readFile(filepath.Join(f.dir, path))
		if err == nil && !builtin(text) {
			f.left = append(f.left, "the plugin of "+path+" does not run")
			return false
		}
		return true
	}
	k.Generators, k.Transformers = only(k.Generators, inline), only(k.Transformers, inline)
	k.Validators = only(k.Validators, inline)
	f.resources = resources
	if len(k.HelmCharts) > 0 {
		f.left = append(f.left, "its Helm charts are not rendered")
		k.HelmCharts, k.HelmGlobals = nil, nil
	}
}

// builtin reports whether the configuration of a plugin is of one that is part
// of kustomize.
func builtin(text []byte) bool {
	var meta types.TypeMeta
	return yaml.Unmarshal(text, &meta) == nil && meta.APIVersion == "builtin"
}

// remote reports whether something that does not exist here is meant to be
// fetched: github.com/org/repo//path?ref=v1, https://…, git@host:repo.
func remote(path string) bool {
	host, _, deep := strings.Cut(path, "/")
	return strings.Contains(path, "://") || strings.Contains(path, "?ref=") || strings.ContainsAny(host, "@:") ||
		deep && strings.Contains(strings.Trim(host, "."), ".")
}

// others notes patches and the like, and removes missing files.
func (s *Set) others(f *folder, k *types.Kustomization) {
	name := func(path string) bool {
		if path == "" || strings.Contains(path, "\n") {
			return true
		}
		if at, err := realPath(filepath.Join(f.dir, path)); err == nil {
			s.files[at] = true
			return true
		}
		if remote(path) {
			f.left = append(f.left, path+" is remote, and is not fetched")
		} else { // a script makes it, before the kustomization is applied
			f.left = append(f.left, path+" does not exist")
		}
		return false
	}
	k.Patches = only(k.Patches, func(p types.Patch) bool { return name(p.Path) })
	for _, p := range k.Patches {
		if p.Path != "" {
			f.patches = append(f.patches, filepath.Join(f.dir, p.Path))
		}
	}
	k.Replacements = only(k.Replacements, func(r types.ReplacementField) bool { return name(r.Path) })
	k.Configurations, k.Crds = only(k.Configurations, name), only(k.Crds, name)
	if !name(k.OpenAPI["path"]) {
		k.OpenAPI = nil
	}
	for i := range k.ConfigMapGenerator {
		s.sources(f, &k.ConfigMapGenerator[i].GeneratorArgs, name)
	}
	for i := range k.SecretGenerator {
		s.sources(f, &k.SecretGenerator[i].GeneratorArgs, name)
	}
}

// sources notes the generated objects, and keeps the files of them that exist:
// secrets are rarely in a repository.
func (s *Set) sources(f *folder, g *types.GeneratorArgs, name func(string) bool) {
	complete := true
	keep := func(entry string) bool {
		_, path, ok := strings.Cut(entry, "=")
		if !ok {
			path = entry
		}
		_, err := os.Stat(filepath.Join(f.dir, path))
		exists := err == nil && name(path)
		complete = complete && exists
		return exists
	}
	g.FileSources, g.EnvSources = only(g.FileSources, keep), only(g.EnvSources, keep)
	f.generates = append(f.generates, g.Name)
	if !complete {
		f.partial = append(f.partial, g.Name)
	}
}

// only returns the elements to keep, or nil if there are no such elements.
func only[T any](list []T, keep func(T) bool) []T {
	if list = slices.DeleteFunc(list, func(e T) bool { return !keep(e) }); len(list) == 0 {
		return nil
	}
	return list
}

// Tops returns the folders to build, which a user would apply: the folders that
// the user named, and the folders found that aren't components and that no
// other kustomization uses.
func (s *Set) Tops(named, met []string) []string {
	var out []string
	for i, dir := range append(slices.Clone(named), met...) {
		dir = checkout.Real(dir)
		f := s.folders[dir]
		if f == nil || slices.Contains(out, dir) || i >= len(named) && (s.used[dir] || f.component) {
			continue
		}
		out = append(out, dir)
	}
	// Folders that use each other in a circle have no top. kustomize refuses them.
	reached := map[string]bool{}
	for _, dir := range out {
		s.collect(s.folders[dir], &Built{}, reached)
	}
	for _, dir := range met {
		dir = checkout.Real(dir)
		if f := s.folders[dir]; f != nil && !f.component && !reached[dir] {
			out = append(out, dir)
			s.collect(f, &Built{}, reached)
		}
	}
	return out
}

// Resources returns the files that are resources of a kustomization.
func (s *Set) Resources() []string {
	var out []string
	for _, f := range s.folders {
		for _, path := range f.resources {
			if !slices.Contains(f.patches, path) && !slices.Contains(out, path) {
				out = append(out, path)
			}
		}
	}
	slices.Sort(out)
	return out
}

// Names reports whether a kustomization names a file, so that it is not judged
// alone.
func (s *Set) Names(path string) bool { return s.files[checkout.Real(path)] }
