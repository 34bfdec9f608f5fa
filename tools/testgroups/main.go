// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command testgroups lists the end-to-end tests of a group, for hack/test.
//
//	testgroups DIRECTORY shared|alone|own
//
// prints the tests of a package as an argument of `go test -run`. A test declares its group in its
// first statement, or in the second one after t.Parallel: up and noCluster declare the group shared,
// alone declares alone, and ownCluster declares own. The command fails if a test of the package
// declares no group, if it does so later, or if a test of the group alone is parallel.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: testgroups DIRECTORY shared|alone|own")
		os.Exit(2)
	}
	groups, err := read(os.Args[1])
	if err == nil && len(groups[os.Args[2]]) == 0 {
		err = fmt.Errorf("%s has no test of the group %s", os.Args[1], os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "test: error:", err)
		os.Exit(1)
	}
	fmt.Printf("^(%s)$\n", strings.Join(groups[os.Args[2]], "|"))
}

// groupOf returns the group that a call declares, or "".
func groupOf(call *ast.CallExpr) string {
	name, ok := call.Fun.(*ast.Ident)
	if !ok {
		return ""
	}
	switch name.Name {
	case "up", "noCluster":
		return "shared"
	case "alone":
		return "alone"
	case "ownCluster":
		return "own"
	}
	return ""
}

// read returns the names of a package's tests by group, in the order of the files.
func read(dir string) (map[string][]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	groups, positions := map[string][]string{}, token.NewFileSet()
	var wrong []error
	for _, name := range files {
		file, err := parser.ParseFile(positions, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		declarations := map[*ast.CallExpr]bool{}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !isTest(fn) {
				continue
			}
			call, err := declaration(fn)
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %s %w", positions.Position(fn.Pos()), fn.Name.Name, err))
				continue
			}
			declarations[call] = true
			groups[groupOf(call)] = append(groups[groupOf(call)], fn.Name.Name)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && groupOf(call) != "" && !declarations[call] {
				wrong = append(wrong, fmt.Errorf("%s: a test's group is declared here: move it to the test's first "+
					"statement", positions.Position(call.Pos())))
			}
			return true
		})
	}
	return groups, errors.Join(wrong...)
}

// isTest reports whether `go test` runs the function as a test.
func isTest(fn *ast.FuncDecl) bool {
	if fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") || len(fn.Type.Params.List) != 1 {
		return false
	}
	pointer, ok := fn.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	parameter, ok := pointer.X.(*ast.SelectorExpr)
	return ok && parameter.Sel.Name == "T"
}

// declaration returns the call by which a test declares its group.
func declaration(fn *ast.FuncDecl) (*ast.CallExpr, error) {
	body := fn.Body.List
	parallel := slices.IndexFunc(body, isParallel)
	if parallel == 0 {
		body = body[1:]
	}
	if len(body) == 0 {
		return nil, errors.New("declares no group: begin with up, alone, ownCluster or noCluster")
	}
	call := calls(body[0])
	switch {
	case call == nil || groupOf(call) == "":
		return nil, errors.New("does not declare its group first: begin with up, alone, ownCluster or noCluster, or " +
			"with t.Parallel and one of them")
	case groupOf(call) == "alone" && parallel >= 0:
		return nil, errors.New("is alone, so it cannot be parallel")
	case parallel > 0:
		return nil, errors.New("declares its group before t.Parallel: swap them")
	}
	return call, nil
}

// calls returns the call that a statement consists of, with or without a variable for its result.
func calls(s ast.Stmt) *ast.CallExpr {
	var value ast.Expr
	switch s := s.(type) {
	case *ast.ExprStmt:
		value = s.X
	case *ast.AssignStmt:
		if len(s.Rhs) == 1 {
			value = s.Rhs[0]
		}
	}
	call, _ := value.(*ast.CallExpr)
	return call
}

// isParallel reports whether a statement is t.Parallel().
func isParallel(s ast.Stmt) bool {
	call := calls(s)
	if call == nil {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	return ok && method.Sel.Name == "Parallel"
}
