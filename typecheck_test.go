// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package mullion

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// listed holds the answer of `go list` about a package.
type listed struct {
	Dir, ImportPath, Export            string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

// unit holds what one run of the compiler gets: a package without its tests,
// with those of the same package, or its tests of the package "…_test".
type unit struct {
	path  string // import path
	tests bool
	files []*ast.File
	pkg   *types.Package
	info  *types.Info
}

// program holds the packages of the repository's modules, type-checked from
// their sources as they are built for Linux and Windows. A file that belongs to
// several units is parsed once, so that the position of a declaration
// identifies it in all of them.
type program struct {
	t     *testing.T
	fset  *token.FileSet
	files map[string]*ast.File
	units []*unit
}

// ours reports whether a package belongs to the repository.
func ours(pkg string) bool { return strings.HasPrefix(pkg, module+"/") }

func (p *program) list(dir, goos string, args ...string) map[string]listed {
	p.t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=" +
		"Dir,ImportPath,Export,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports"}, args...)...)
	cmd.Dir = dir
	// As hack/check builds: other flags would compile Kubernetes once more.
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("list the packages of %s for %s: %v\n%s", dir, goos, err, &stderr)
	}
	pkgs := map[string]listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			p.t.Fatal(err)
		}
		pkgs[l.ImportPath] = l
	}
}

func (p *program) parse(dir string, names ...[]string) []*ast.File {
	p.t.Helper()
	var files []*ast.File
	for _, n := range slices.Concat(names...) {
		name := filepath.Join(dir, n)
		if p.files[name] == nil {
			f, err := parser.ParseFile(p.fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				p.t.Fatal(err)
			}
			p.files[name] = f
		}
		files = append(files, p.files[name])
	}
	return files
}

// load adds what is built for a system: all packages, or those that programs
// link and their tests use.
func (p *program) load(goos string, programs ...string) {
	p.t.Helper()
	pkgs := p.list(".", goos, "./...")
	maps.Copy(pkgs, p.list("pwsh", goos, "./..."))
	roots := pkgs
	if len(programs) > 0 {
		roots = p.list(".", goos, append([]string{"-deps"}, programs...)...)
	}
	maps.DeleteFunc(roots, func(path string, _ listed) bool { return !ours(path) })
	foreign := map[string]bool{}
	for path := range wanted(pkgs, roots) {
		l := pkgs[path]
		for _, i := range slices.Concat(l.Imports, l.TestImports, l.XTestImports) {
			if !ours(i) && i != "unsafe" {
				foreign[i] = true
			}
		}
	}
	exports := p.list(".", goos, append([]string{"-export"}, slices.Collect(maps.Keys(foreign))...)...)
	c := &checker{program: p, pkgs: pkgs, done: map[string]*types.Package{}}
	c.foreign = importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path].Export)
	})
	for path, l := range roots {
		pkg, err := c.Import(path)
		if err != nil {
			p.t.Fatal(err)
		}
		if len(l.TestGoFiles) > 0 {
			pkg = c.check(path, true, c, p.parse(l.Dir, l.GoFiles, l.TestGoFiles))
		}
		if len(l.XTestGoFiles) > 0 {
			c.check(path+"_test", true, &checkerOf{c, pkg}, p.parse(l.Dir, l.XTestGoFiles))
		}
	}
}

// wanted returns the roots and the packages of the repository that they and
// their tests import.
func wanted(pkgs, roots map[string]listed) map[string]bool {
	found := map[string]bool{}
	var add func(path string)
	add = func(path string) {
		if ours(path) && !found[path] {
			found[path] = true
			for _, i := range pkgs[path].Imports {
				add(i)
			}
		}
	}
	for path, l := range roots {
		add(path)
		for _, i := range slices.Concat(l.TestImports, l.XTestImports) {
			add(i)
		}
	}
	return found
}

// checker type-checks our packages from their sources, and takes what the
// compiler exported of all others.
type checker struct {
	*program
	pkgs    map[string]listed
	done    map[string]*types.Package
	foreign types.Importer
}

// Import implements types.Importer.
func (c *checker) Import(path string) (*types.Package, error) {
	switch l, ok := c.pkgs[path]; {
	case path == "unsafe":
		return types.Unsafe, nil
	case !ours(path):
		return c.foreign.Import(path)
	case c.done[path] != nil:
	case !ok:
		return nil, fmt.Errorf("type-check %s: go list does not know it", path)
	default:
		c.done[path] = c.check(path, false, c, c.parse(l.Dir, l.GoFiles))
	}
	return c.done[path], nil
}

// check does not report errors: the compiler does. Where a test's package and
// the package without its tests meet, their types differ, which it forgives.
func (c *checker) check(path string, tests bool, from types.Importer, files []*ast.File) *types.Package {
	u := &unit{path: path, tests: tests, files: files, info: &types.Info{
		Defs:  map[*ast.Ident]types.Object{},
		Uses:  map[*ast.Ident]types.Object{},
		Types: map[ast.Expr]types.TypeAndValue{},
	}}
	config := types.Config{Importer: from, Error: func(error) {}}
	u.pkg, _ = config.Check(path, c.fset, files, u.info)
	c.units = append(c.units, u)
	return u.pkg
}

// checkerOf is the importer of a package's external tests: they see the package
// with its other tests.
type checkerOf struct {
	*checker
	tested *types.Package
}

// Import implements types.Importer.
func (c *checkerOf) Import(path string) (*types.Package, error) {
	if path == c.tested.Path() {
		return c.tested, nil
	}
	return c.checker.Import(path)
}
