// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package kustomize

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
)

func marked() []string {
	return []string{
		"",
		"# nothing\n",
		"---\n---\n",
		"kind: Pod\nmetadata:\n  name: p\n",
		"kind: Pod\nmetadata: {name: p}\n",
		"kind: Pod\nmetadata:\n  name: p\n  annotations:\n    a: b\nspec: {}\n---\nkind: Pod\nmetadata:\n    name: q",
		"---\nkind: Pod\nmetadata:\n  annotations:\n  # about it\n    a: b\n  name: p\n",
		"kind: Pod\nmetadata:\n  annotations: {}\n  name: p\n",
		"kind: Pod\nmetadata:\n  annotations:\n  name: p\n",
		"kind: Pod\nmetadata: {name: p, annotations: {a: b}}\n",
		"kind: ConfigMap\nmetadata:\n  name: m\ndata:\n  text: |\n    ---\n    metadata:\n      name: x\n",
		"kind: ConfigMap\nmetadata:\n  name: m\ndata:\n  text: |\n---\nkind: Pod\nmetadata:\n  name: x\n",
		"kind: PodList\nitems:\n- kind: Pod\n  metadata:\n    name: p\n",
		"kind: Pod\nmetadata:\n\n  labels:\n    a: &a b\n    c: *a\n  name: p\n",
		"kind: Pod\r\nmetadata:\r\n  name: p\r\n",
		"{\"kind\": \"Pod\", \"metadata\": {\"name\": \"p\"}}",
		"--- # first\nkind: Pod\nmetadata:\n  name: p\n",
		"kind: Pod\nmetadata:\n  name: p\n...\n---\nkind: Pod\nmetadata:\n  name: q\n",
		"kind: Pod\nspec:\n  metadata:\n    name: x\n",
	}
}

// TestMarkPlain: usual manifests are marked without reading and writing all of YAML.
func TestMarkPlain(t *testing.T) {
	text := "# head\n---\nkind: Pod\nmetadata:\n  name: p\n---\n" +
		"kind: Pod\nmetadata:\n  name: q\n  annotations:\n    a: b\n"
	got, ok := markPlain([]byte(text), `/a "b"/x.yaml`)
	want := "# head\n---\nkind: Pod\nmetadata:\n  annotations:\n" +
		"    lint.mullion.dev/origin: \"/a \\\"b\\\"/x.yaml\"\n  name: p\n---\n" +
		"kind: Pod\nmetadata:\n  name: q\n  annotations:\n" +
		"    lint.mullion.dev/origin: \"/a \\\"b\\\"/x.yaml\"\n    a: b\n"
	if !ok || string(got) != want {
		t.Errorf("%t\n%s", ok, got)
	}
}

// FuzzMark: marking by lines gives the same objects as reading and writing all of YAML.
func FuzzMark(f *testing.F) {
	for _, text := range marked() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		plain, ok := markPlain(text, "/x/é.yaml")
		if !ok {
			return
		}
		if got, want := documents(plain), documents(markParsed(text, "/x/é.yaml")); !reflect.DeepEqual(got, want) {
			t.Errorf("%q is marked\n%s\nwant %v, got %v", text, plain, want, got)
		}
	})
}

// documents decodes what is not empty.
func documents(text []byte) []any {
	var out []any
	from := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var v any
		if err := from.Decode(&v); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			return append(out, "no YAML") // at another line
		}
		if v != nil {
			out = append(out, v)
		}
	}
}

// TestPlainTree: the tree of a node equals what kustomize writes in JSON, or there is none.
func TestPlainTree(t *testing.T) {
	const unusual = "a: 0755\n|a: 0x1f|a: 1_000|a: 1e3|a: .5|a: 1.0|a: +1|a: True|a:|a: 2001-01-01|a: .nan|a: !x y|" +
		"a: !!int '2'|a: &x y|a: *x|1: a|{A}|a: 12345678901234567890|a: 1\na: 2|a: {<<: {b: c}}"
	const plain = "a: 1|a: -2|a: 1.5|a: 0.1|a: 123456789.125|a: true|a: false|a: no|a: null|a: ~|a: 'x'|a: \"1\"|" +
		"a: !!str 1|a: |\n  x\nb: >\n  y\n  z\n|a: [1, {b: c}, []]|a: {}|a: 9007199254740993|a: 'null'|a: ''"
	for _, text := range append(marked(), strings.Split(unusual, "|")...) {
		checkPlainTree(t, text)
	}
	for text := range strings.SplitSeq(strings.ReplaceAll(plain, "a: |\n", "a: ¦\n"), "|") {
		if text = strings.ReplaceAll(text, "¦", "|"); !checkPlainTree(t, text) {
			t.Errorf("%q is not plain", text)
		}
	}
}

func FuzzPlainTree(f *testing.F) {
	for _, text := range marked() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkPlainTree(t, text) })
}

// checkPlainTree reports whether a text has a plain tree, and compares it.
func checkPlainTree(t *testing.T, text string) bool {
	t.Helper()
	node, err := kyaml.Parse(text)
	if err != nil || node.YNode().Kind != yaml.MappingNode {
		return false
	}
	got, ok := plainTree(node.YNode())
	if !ok {
		return false
	}
	written, err := node.MarshalJSON()
	if err != nil {
		t.Fatalf("%q is plain, and kustomize cannot write it: %v", text, err)
	}
	var want any
	if err := json.Unmarshal(written, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q: %#v, want %#v", text, got, want)
	}
	return true
}
