// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package mullion

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// habits are words that are right in one sentence and wrong as a habit. A text with many of them has clauses
// instead of nouns ("what was built" for "the build"), or programs that speak ("asks", "tells"). Each has its
// ceiling per 1,000 words, in comments of product code and in documents for people. Texts of other projects in
// the field stay below 1. A ceiling may only be lowered.
var habits = []struct {
	name    string
	words   string
	ceiling float64
}{
	{"what", `what`, 1.5},
	{"those", `those`, 0.8},
	{"nothing, none", `nothing|none`, 1.5},
	{"ask, tell", `asks?|asked|asking|tells?|told|telling`, 0.4},
	{"that of, of its own", `that of|of its own`, 0.2},
}

// word matches one word of a text.
var word = regexp.MustCompile(`[A-Za-z][A-Za-z'’-]*`)

func TestHabits(t *testing.T) {
	texts := map[string]string{"comments": comments(t), "docs": documents(t)}
	for _, h := range habits {
		pattern := regexp.MustCompile(`(?i)\b(` + h.words + `)\b`)
		for name, text := range texts {
			total := len(word.FindAllString(text, -1))
			rate := 1000 * float64(len(pattern.FindAllString(text, -1))) / float64(total)
			t.Logf("%-8s %-20s %.2f per 1,000 of %d words, at most %.2f", name, h.name, rate, total, h.ceiling)
			if rate > h.ceiling {
				t.Errorf("%s: %s: %.2f per 1,000 words, at most %.2f: use a noun, or name who acts", name, h.name, rate,
					h.ceiling)
			}
		}
	}
}

// comments returns the comments of the product's code without the licence.
func comments(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	sources(t, func(name string) {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range file.Comments {
			if !strings.HasPrefix(group.Text(), "SPDX") {
				b.WriteString(group.Text())
			}
		}
	})
	return b.String()
}

// documents returns the pages for people: all that are not generated.
func documents(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, glob := range []string{"*.md", "docs/*.md", "docs/[^r]*/*.md", "charts/*/*.md", "pwsh/*.md"} {
		names, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(text)
		}
	}
	return b.String()
}

// TestReportsWhether: a function "reports whether" if it returns a bool.
func TestReportsWhether(t *testing.T) {
	sources(t, func(name string) {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			f, ok := n.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Doc.Text(), f.Name.Name+" reports whether") {
				return true
			}
			if !returns(f, "bool") {
				t.Errorf(`%s: %s reports whether …, but it returns no bool: write "returns an error if" or what it `+
					`returns`, set.Position(f.Pos()), f.Name.Name)
			}
			return true
		})
	})
}

// returns reports whether a function has a result of a type, or a result that is a function with one.
func returns(f *ast.FuncDecl, kind string) bool {
	found := false
	if f.Type.Results != nil {
		ast.Inspect(f.Type.Results, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			found = found || ok && id.Name == kind
			return true
		})
	}
	return found
}
