// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package syntax

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func parse(t testing.TB, text string, e Edition) *ScriptBlock {
	t.Helper()
	b, err := Parse(&Source{Text: text}, e)
	if err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	return b
}

// dump writes a tree without positions.
func dump(n Node) string {
	var b strings.Builder
	walk(n, func(n Node) bool {
		v := reflect.ValueOf(n).Elem()
		b.WriteString(v.Type().Name())
		for i := range v.NumField() {
			switch f := v.Field(i); f.Kind() {
			case reflect.String, reflect.Bool, reflect.Int, reflect.Uint8:
				if v.Type().Field(i).Name == "Bare" {
					continue // how a word was quoted does not matter
				}
				if v.Type().Field(i).Name == "Text" && n.End() >= 0 {
					continue
				}
				fmt.Fprintf(&b, " %s=%v", v.Type().Field(i).Name, f.Interface())
			case reflect.Interface:
				if v.Type().Field(i).Name == "Value" && f.Elem().Kind() != reflect.Pointer {
					fmt.Fprintf(&b, " %v", f.Interface())
				}
			}
		}
		b.WriteString("\n")
		return true
	})
	return b.String()
}

// roundTrip checks that what is printed parses to the same tree.
func roundTrip(t testing.TB, text string, e Edition) {
	t.Helper()
	first, err := Parse(&Source{Text: text}, e)
	if err != nil {
		return
	}
	again := printed(first)
	second, err := Parse(&Source{Text: again}, e)
	if err != nil {
		t.Fatalf("the printed text does not parse: %v\nsource: %q\nprinted: %q", err, text, again)
	}
	if a, b := dump(first), dump(second); a != b {
		t.Fatalf("the tree changed\nsource: %q\nprinted: %q\n--- first\n%s\n--- second\n%s", text, again, a, b)
	}
}

func scripts(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/scripts/*.ps1")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	var out []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

var snippets = []string{
	"", "1", "'a'", "\"a $x $($y.z) ${q w}\"", "a -b c -d:e f,g", "$a.b[0]::c", "[int]$x = 5", "$x++", "@{a=1;'b c'=2}",
	"& { param($x=1) $x } 3", "if ($a) {1} elseif (2) {3} else {4}", "for (;;) {}", "foreach ($x in 1..3) { $x }",
	":l while (1) { break l }", "do {1} until (2)", "switch -regex (1) { 'a' {1} default {2} }",
	"function f($a,[int]$b=2) { begin {1} process {2} end {3} }", "filter g { $_ }",
	"try {1} catch [A.B],[C] {2} finally {3}", "trap [X] { continue }", "return 1, 2", "throw",
	"a | b | c > d 2>&1 3>> e *> f", "$a,$b = 1,2", "-not $x -and !$y", "1 -shl 2 -band 3", "'{0}' -f 1,2", ",1",
	"-join 1,2", "a --% b %c% | d", "a`nb", "[Parameter(Mandatory=$true, Position=0)]",
	"param([Parameter(Mandatory)][string]$x)",
	"1..5 | % { $_ } | ? { $_ -gt 2 }", "$h.Get_Item($k)", "'x'.Replace('a','b').Length",
	"[System.Collections.Generic.List[string]]::new()", "@(1;2;3)", "\"`$a `\"q`\" `n\"", "- 5", "-5", "1 - -5",
	"$a -5", "a b\\c $d\\e \"f\"g", "exit 3", "using namespace System.IO\n1", ". ./x.ps1", "&'a b' c",
	"$x = if (1) {2}", "$x += 1", "@'\na'b\n'@", "@\"\n$a\n\"@", "$env:PATH; $script:x = 1", "f @h @l", "[ordered]@{}",
	"$x.'a b'", "$x.$y", "$x.($z)",
}

func TestRoundTrip(t *testing.T) {
	for _, s := range append(snippets, scripts(t)...) {
		roundTrip(t, s, Desktop)
		roundTrip(t, s, Core)
	}
	for _, s := range []string{"a && b || c", "$x ? 1 : 2", "$a ?? 'b'", "${x}?.y", "${x}?[1]", "a\n| b"} {
		parse(t, s, Core)
		roundTrip(t, s, Core)
	}
}

func TestErrors(t *testing.T) {
	for _, x := range []struct {
		name, text, id string
		incomplete     bool
	}{
		{"string", "'abc", "TerminatorExpectedAtEndOfString", true},
		{"double", "\"abc $(1", "MissingEndParenthesisInExpression", true},
		{"here string", "@'\nabc", "TerminatorExpectedAtEndOfString", true},
		{"comment", "<# abc", "MissingTerminatorMultiLineComment", true},
		{"block", "if (1) {", "MissingEndCurlyBrace", true},
		{"paren", "(1", "MissingEndParenthesisInExpression", true},
		{"condition", "if (1 { 2 }", "MissingEndParenthesisAfterStatement", false},
		{"operator", "1 +", "ExpectedValueExpression", true},
		{"pipe", "a |", "EmptyPipeElement", true},
		{"first pipe", "| a", "EmptyPipeElement", false},
		{"expression in a pipeline", "a | 1", "ExpressionsMustBeFirstInPipeline", false},
		{"assignment", "1 = 2", "InvalidLeftHandSide", false},
		{"brace", "}", "UnexpectedToken", false},
		{"hash", "@{a}", "MissingEqualsInHashLiteral", false},
		{"try", "try {}", "MissingCatchOrFinally", true},
		{"class", "class A {}", "StatementNotSupported", false},
		{"drive", "\"$a: b\"", "InvalidVariableReferenceWithDrive", false},
		{"chain", "a && b", "InvalidEndOfLine", false},
		{"less", "a < b", "RedirectionNotSupported", false},
		{"splat", "$x = @y", "SplattingNotPermitted", false},
		{"type", "[", "MissingTypename", true},
		{"index", "$a[1", "MissingEndSquareBracket", true},
		{"braced variable", "${a", "IncompleteDollarVariableReference", true},
		{"deep", strings.Repeat("(", 5000), "ScriptTooComplicated", false},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, err := Parse(&Source{Text: x.text}, Desktop)
			var pe *Error
			if !errors.As(err, &pe) {
				t.Fatalf("no error")
			}
			if pe.ID != x.id || pe.Incomplete != x.incomplete {
				t.Errorf("got %s (incomplete %t): %s; want %s (%t)", pe.ID, pe.Incomplete, pe.Msg, x.id, x.incomplete)
			}
		})
	}
}

func TestPositions(t *testing.T) {
	src := &Source{Text: "one\n  two -x\nthree"}
	b, err := Parse(src, Desktop)
	if err != nil {
		t.Fatal(err)
	}
	s := b.EndBlock.Stmts[1]
	line, col := src.LineCol(s.Pos())
	if line != 2 || col != 3 || src.Slice(s.Pos(), s.End()) != "two -x" {
		t.Errorf("got line %d col %d %q", line, col, src.Slice(s.Pos(), s.End()))
	}
	text, mark := src.Window(s.Pos(), s.End())
	if text != "  two -x" || mark != "  ~~~~~~" {
		t.Errorf("got %q %q", text, mark)
	}
}

// TestWalkCovers checks that every node's span lies in its parent's source.
func TestWalkCovers(t *testing.T) {
	for _, s := range append(snippets, scripts(t)...) {
		b, err := Parse(&Source{Text: s}, Desktop)
		if err != nil {
			continue
		}
		walk(b, func(n Node) bool {
			if n.Pos() < 0 || int(n.End()) > len(s) || n.Pos() > n.End() {
				t.Errorf("%T spans %d-%d of %d bytes: %q", n, n.Pos(), n.End(), len(s), s)
			}
			return true
		})
	}
}

func FuzzRoundTrip(f *testing.F) {
	for _, s := range append(snippets, scripts(f)...) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		roundTrip(t, text, Desktop)
		roundTrip(t, text, Core)
	})
}

func BenchmarkParse(b *testing.B) {
	var text string
	for _, s := range scripts(b) {
		text += s + "\n"
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(&Source{Text: text}, Desktop); err != nil {
			b.Fatal(err)
		}
	}
}
