// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package mullion

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// windowsPrograms are the programs that are built for Windows.
var windowsPrograms = []string{"./cmd/mullion", "./cmd/mullion-bridge", "./cmd/conhost", "./cmd/powershell",
	"./cmd/winbox"}

// TestSurface finds what packages below internal/ export although no other
// package, nor a test outside the package, needs it. Needed is
//
//   - what another package names,
//   - a type that stands in the declaration of something needed,
//   - a constant beside a needed one in the same parentheses,
//   - a method that an interface asks for,
//   - an interface that a type of another package implements.
//
// Fields of structs are exempt: encoders and comparisons read them too.
func TestSurface(t *testing.T) {
	p := &program{t: t, fset: token.NewFileSet(), files: map[string]*ast.File{}}
	p.load("linux")
	p.load("windows", windowsPrograms...)
	s := &surface{
		needed:  map[token.Pos]bool{},
		beside:  map[token.Pos][]types.Object{},
		asking:  map[string][]*types.Interface{},
		noted:   map[*types.Interface]bool{},
		visited: map[any]bool{},
	}
	for _, u := range p.units {
		s.interfaces(u.pkg)
		for _, v := range u.info.Types {
			if v.Type != nil {
				s.asks(v.Type)
			}
		}
	}
	for _, u := range p.units {
		s.methods(u)
		s.groups(u)
	}
	for _, u := range p.units {
		for _, o := range u.info.Uses {
			if o.Pkg() != nil && o.Pkg().Path() != u.path {
				s.need(o)
			}
		}
	}
	s.contracts(p)
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range s.unneeded(p) {
		name, _ := filepath.Rel(wd, at.Filename)
		t.Errorf("%s:%d: exported, but no other package needs it", name, at.Line)
	}
}

// namedForTests are packages for tests whose names do not end in "test".
var namedForTests = []string{
	"internal/netplane/netlab",
	"internal/testenv",
	"pwsh/internal/golden",
}

// TestPackagesForTests: one sees by the name of a package whether it ships.
func TestPackagesForTests(t *testing.T) {
	imported, packages := map[string]bool{}, map[string]bool{}
	sources(t, func(name string) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		dir := path.Dir(name)
		if f.Name.Name != "main" && strings.Contains("/"+dir+"/", "/internal/") {
			packages[dir] = true
		}
		if forTests := strings.HasSuffix(dir, "test") || slices.Contains(namedForTests, dir); !forTests {
			for _, i := range f.Imports {
				imported[strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), module+"/")] = true
			}
		}
	})
	for dir := range packages {
		forTests := strings.HasSuffix(dir, "test") || slices.Contains(namedForTests, dir)
		switch {
		case forTests && imported[dir]:
			t.Errorf("%s has the name of a package for tests, but what ships imports it", dir)
		case !forTests && !imported[dir]:
			t.Errorf("only tests import %s: end its name in test, and keep it beside what it tests", dir)
		}
	}
}

// surface collects what is needed from outside, by the positions of the
// declarations.
type surface struct {
	needed  map[token.Pos]bool
	beside  map[token.Pos][]types.Object  // the constants of a declaration
	asking  map[string][]*types.Interface // by the names of their methods
	noted   map[*types.Interface]bool     // in asking
	visited map[any]bool                  // by need, mention and interfaces
}

// need marks an object, and the types in its declaration.
func (s *surface) need(o types.Object) {
	if _, ok := o.(*types.PkgName); ok || o.Pkg() == nil || !ours(o.Pkg().Path()) {
		return
	}
	switch x := o.(type) {
	case *types.Func:
		o = x.Origin()
	case *types.Var:
		o = x.Origin()
	}
	if s.needed[o.Pos()] && s.visited[o] {
		return
	}
	s.needed[o.Pos()], s.visited[o] = true, true
	for _, c := range s.beside[o.Pos()] {
		s.need(c)
	}
	named, ok := o.Type().(*types.Named)
	if _, isType := o.(*types.TypeName); !isType || !ok {
		s.mention(o.Type())
		return
	}
	s.mention(named.Underlying())
	for m := range named.Methods() {
		if s.needed[m.Origin().Pos()] {
			s.mention(m.Type())
		}
	}
}

// mention marks the named types within a type.
func (s *surface) mention(t types.Type) {
	if s.visited[t] {
		return
	}
	s.visited[t] = true
	switch t := t.(type) {
	case *types.Named:
		s.need(t.Obj())
		for a := range t.TypeArgs().Types() {
			s.mention(a)
		}
	case *types.Alias:
		s.need(t.Obj())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels, maps
		s.mention(t.Elem())
		if m, ok := t.(*types.Map); ok {
			s.mention(m.Key())
		}
	case *types.Tuple:
		for v := range t.Variables() {
			s.mention(v.Type())
		}
	case *types.Signature:
		s.mention(t.Params())
		s.mention(t.Results())
		for p := range t.TypeParams().TypeParams() {
			s.mention(p.Constraint())
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				s.mention(f.Type())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			s.mention(m.Type())
		}
	}
}

// asks notes an interface under the names of its methods.
func (s *surface) asks(t types.Type) {
	i, ok := t.Underlying().(*types.Interface)
	if !ok || s.noted[i] {
		return
	}
	s.noted[i] = true
	for m := range i.Methods() {
		s.asking[m.Name()] = append(s.asking[m.Name()], i)
	}
}

// interfaces notes the interfaces of a package and of all that it imports.
func (s *surface) interfaces(pkg *types.Package) {
	if s.visited[pkg] {
		return
	}
	s.visited[pkg] = true
	for _, n := range pkg.Scope().Names() {
		if o, ok := pkg.Scope().Lookup(n).(*types.TypeName); ok {
			s.asks(o.Type())
		}
	}
	for _, i := range pkg.Imports() {
		s.interfaces(i)
	}
}

// methods marks the methods that an interface asks for. Package errors finds Is,
// As and Unwrap by unnamed interfaces.
func (s *surface) methods(u *unit) {
	for _, o := range u.info.Defs {
		f, ok := o.(*types.Func)
		if !ok || f.Signature().Recv() == nil {
			continue
		}
		n := receiver(f)
		if n == nil || types.IsInterface(n) || n.TypeParams() != nil ||
			slices.Contains([]string{"Is", "As", "Unwrap"}, f.Name()) ||
			slices.ContainsFunc(s.asking[f.Name()], func(i *types.Interface) bool { return implements(n, i) }) {
			s.needed[f.Pos()] = true
		}
	}
}

// receiver returns the type that a method belongs to.
func receiver(f *types.Func) *types.Named {
	t := f.Signature().Recv().Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	n, _ := t.(*types.Named)
	return n
}

func implements(t types.Type, i *types.Interface) bool {
	return types.Implements(t, i) || types.Implements(types.NewPointer(t), i)
}

// groups notes which constants are declared in the same parentheses.
func (s *surface) groups(u *unit) {
	for _, f := range u.files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST || !g.Lparen.IsValid() {
				continue
			}
			var all []types.Object
			for _, spec := range g.Specs {
				for _, id := range spec.(*ast.ValueSpec).Names {
					all = append(all, u.info.Defs[id])
				}
			}
			for _, o := range all {
				s.beside[o.Pos()] = all
			}
		}
	}
}

// contracts marks the interfaces that types of other packages implement.
func (s *surface) contracts(p *program) {
	var all []*types.Named
	for _, u := range p.units {
		for _, n := range u.pkg.Scope().Names() {
			if o, ok := u.pkg.Scope().Lookup(n).(*types.TypeName); ok && !u.tests {
				if t, ok := o.Type().(*types.Named); ok && t.TypeParams() == nil {
					all = append(all, t)
				}
			}
		}
	}
	for _, n := range all {
		i, ok := n.Underlying().(*types.Interface)
		if ok && i.NumMethods() > 0 && slices.ContainsFunc(all, func(t *types.Named) bool {
			return t.Obj().Pkg() != n.Obj().Pkg() && !types.IsInterface(t) && implements(t, i)
		}) {
			s.need(n.Obj())
		}
	}
}

// unneeded returns where packages below internal/ declare what is exported and
// not needed, in order.
func (s *surface) unneeded(p *program) []token.Position {
	var found []token.Position
	for _, u := range p.units {
		if u.tests || !strings.Contains(u.path, "/internal/") {
			continue
		}
		for _, o := range u.info.Defs {
			if o == nil || !o.Exported() || s.needed[o.Pos()] {
				continue
			}
			f, isFunc := o.(*types.Func)
			if isFunc && f.Parent() == nil && receiver(f) == nil || !isFunc && o.Parent() != u.pkg.Scope() {
				continue // of an interface, a struct or a function
			}
			s.needed[o.Pos()] = true // once for both systems
			found = append(found, p.fset.Position(o.Pos()))
		}
	}
	slices.SortFunc(found, func(a, b token.Position) int {
		return strings.Compare(a.String(), b.String())
	})
	return found
}
