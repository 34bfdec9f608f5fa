// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package plainyaml_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/mullion-k8s/mullion/internal/lint/linttest"
	"github.com/mullion-k8s/mullion/internal/lint/plainyaml"
)

// plainTexts are read, each with something that a manifest may have.
var plainTexts = []string{
	"a: b\n",
	"---\na: b",
	"# comment\n---\n\na: b # comment\n  \n# comment\nc: d#e\n",
	"a:\nb:   \nc: # nothing\nd:\n  e:\n",
	"a:\n- b\n- c: 1\n  d: true\n- 'e'\nf:\n  - g # x\n  -   h: \"i: j\"\n      k: l\n",
	"a: {}\nb: []\nc: {d: e, f: [1, -2, \"x, y\", {g: 'h'}]} # i\n",
	"a: mcr.microsoft.com/windows/nanoserver:ltsc2022\nb: http://x:80/y?z={a,b}\nc: -Command\nd: $(X)\n",
	"- - a\n  - b\n- c\n",
	"a: ~\nb: null\nc: 0x1F\nd: 1e3\ne: 012\nf: .5\ng: 2024-01-02\nh: yes\ni: NaN\nj: .inf\n1: 2\ntrue: false\n",
	"\"kubernetes.io/os\": windows\n'x y': z\na: it's\nb: C:\\Windows\n",
	"a: {cpu: 100m, image: a/b:1.2-x, url: http://x}\n",
}

// otherTexts are left to the parser, also where it cannot read them.
var otherTexts = []string{
	"", "# only a comment\n", "a", "a: |\n  b\n", "a: >-\n  b\n", "a: b\n  c\n", "a: &x b\n", "a: *x\n",
	"a: !!str 1\n", "a: \"b\\n\"\n", "a: 'b''c'\n", "a: 'b\n", "a: ä\n", "a:\tb\n", "a: b\r\n", "a: b: c\n",
	"a: b:\n", "a b: c\n", "a: b\n c: d\n", "a:\n  b: c\n d: e\n", "a: b\n- c\n", "- a\nb: c\n",
	"<<: {a: b}\n", "a: <<\n", "a: {b: c\n", "a: [b,\n c]\n", "a: {b}\n", "a: {b: }\n", "a: {b:c}\n",
	"a: [b, ]\n", "a: {b: c} d\n", "? a\n: b\n", "a: - b\n", "-\n  a\n", "- a\n- \n", "--- a\n",
	"a: b\n---\nc: d\n", "---\n---\na: b\n", "a: b\n...\n", "%YAML 1.1\n---\na: b\n", "a:\n- b\n  c: d\n",
	"a: {b: c # d\n}\n", "a: [b#c]\n", "{{ x }}: y\n", "a: {{ x }}\n", "a: @b\n", "a: `b`\n", "a: %b\n",
}

func TestParse(t *testing.T) {
	for _, text := range append(plainTexts, string(linttest.Corpus(1))) {
		if !same(t, []byte(text)) {
			t.Errorf("%q was not read", text)
		}
	}
	for _, text := range otherTexts {
		if same(t, []byte(text)) {
			t.Errorf("%q was read", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range append(append([]string{string(linttest.Corpus(1))}, plainTexts...), otherTexts...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { same(t, text) })
}

// same reports whether a text is read, which must be as the parser reads it.
func same(t *testing.T, text []byte) bool {
	t.Helper()
	got, ok := plainyaml.Parse(text)
	if !ok {
		return false
	}
	var want, more yaml.Node
	from := yaml.NewDecoder(bytes.NewReader(text))
	if err := from.Decode(&want); err != nil {
		t.Fatalf("%q was read, but the parser says: %v", text, err)
	}
	if err := from.Decode(&more); !errors.Is(err, io.EOF) {
		t.Fatalf("%q was read, but has a second document: %v", text, err)
	}
	if w, g, ok := differ(want.Content[0], got); ok {
		t.Fatalf("%q is read otherwise than by the parser:\n%+v\nThe parser has:\n%+v", text, g, w)
	}
	return true
}

// differ returns the first nodes, apart from comments, in which two trees differ.
func differ(a, b *yaml.Node) (x, y *yaml.Node, ok bool) {
	if a.Kind != b.Kind || a.Style != b.Style || a.Tag != b.Tag || a.Value != b.Value || a.Anchor != b.Anchor ||
		a.Alias != b.Alias || a.Line != b.Line || a.Column != b.Column || len(a.Content) != len(b.Content) {
		return a, b, true
	}
	for i := range a.Content {
		if x, y, ok := differ(a.Content[i], b.Content[i]); ok {
			return x, y, true
		}
	}
	return nil, nil, false
}

func BenchmarkParse(b *testing.B) {
	text := linttest.Corpus(1)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := plainyaml.Parse(text); !ok {
			b.Fatal("not read")
		}
	}
}
