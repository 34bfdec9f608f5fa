// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package mullion

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

const (
	maxFunction = 80 // lines, without those of comments and tables
	maxRule     = 12 // lines between the braces
)

// TestFunctionLength counts the lines between a function's braces. Comments
// and composite literals do not count: a long table is easy to read. A function
// literal in a table is a function of its own.
func TestFunctionLength(t *testing.T) {
	sources(t, func(name string) {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Error(err)
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			var body *ast.BlockStmt
			switch n := n.(type) {
			case *ast.FuncDecl:
				body = n.Body
			case *ast.FuncLit:
				body = n.Body
			}
			if body == nil {
				return true
			}
			if lines := codeLines(fset, file, body); lines > maxFunction {
				at := fset.Position(n.Pos())
				t.Errorf("%s: a function of %d lines, more than %d: split it", at, lines, maxFunction)
			}
			return true
		})
	})
}

// codeLines counts the lines of a function's body that are neither comments nor
// within a composite literal.
func codeLines(fset *token.FileSet, file *ast.File, body *ast.BlockStmt) int {
	line := func(p token.Pos) int { return fset.Position(p).Line }
	skipped := map[int]bool{}
	skip := func(first, last int) {
		for l := first; l <= last; l++ {
			skipped[l] = true
		}
	}
	code := map[int]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		if c, ok := n.(*ast.CompositeLit); ok {
			skip(line(c.Lbrace)+1, line(c.Rbrace))
		}
		if n != nil {
			code[line(n.Pos())], code[line(n.End())] = true, true
		}
		return true
	})
	for _, g := range file.Comments {
		if g.Pos() < body.Lbrace || g.End() > body.Rbrace {
			continue
		}
		for l := line(g.Pos()); l <= line(g.End()); l++ {
			if !code[l] {
				skipped[l] = true
			}
		}
	}
	return line(body.Rbrace) - line(body.Lbrace) - 1 - len(skipped)
}

// TestRulesAreShort keeps rules readable as a list: what a rule says stands in
// its literal, and what it does in a function with a name.
func TestRulesAreShort(t *testing.T) {
	found := 0
	sources(t, func(name string) {
		if !strings.HasPrefix(name, "internal/policy/") && !strings.HasPrefix(name, "internal/lint/") ||
			strings.HasSuffix(name, "_test.go") {
			return
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok || !isRule(lit) {
				return true
			}
			found++
			at := fset.Position(lit.Lbrace)
			if lines := fset.Position(lit.Rbrace).Line - at.Line - 1; lines > maxRule {
				t.Errorf("%s: a rule of %d lines, more than %d", at, lines, maxRule)
			}
			ast.Inspect(lit, func(n ast.Node) bool {
				if f, ok := n.(*ast.FuncLit); ok {
					t.Errorf("%s: a function within a rule: give it a name", fset.Position(f.Pos()))
				}
				return true
			})
			return true
		})
	})
	if found < 50 {
		t.Errorf("found %d rules: this test no longer recognizes them", found)
	}
}

// isRule reports whether a literal has the fields that every rule has.
func isRule(lit *ast.CompositeLit) bool {
	has := map[string]bool{}
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if id, ok := kv.Key.(*ast.Ident); ok {
				has[id.Name] = true
			}
		}
	}
	return has["Code"] && has["Severity"]
}
