// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// isManifest reports whether a decoded document is a Kubernetes object.
func isManifest(object map[string]any) bool {
	v := tree.Root(object)
	return v.Find("apiVersion").Str() != "" && v.Find("kind").Str() != ""
}

// mentionsObject reports whether a text that cannot be read may be a Kubernetes
// object with an error in it.
func mentionsObject(text []byte) bool {
	return bytes.Contains(text, []byte("apiVersion")) && bytes.Contains(text, []byte("kind"))
}

// mentionsObjectUTF16 is mentionsObject for the beginning of a text in UTF-16, of
// either order of bytes.
func mentionsObjectUTF16(text []byte) bool {
	return bytes.Contains(text, []byte("a\x00p\x00i\x00V\x00e\x00r\x00s\x00i\x00o\x00n"))
}

// expectation reports whether a file holds a test's expectations of a cluster, as
// the files of KUTTL and Chainsaw do: parts of objects, which are not applied.
// https://kuttl.dev/docs/kuttl-test-harness.html, https://kyverno.github.io/chainsaw
func expectation(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	words := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("-_.", r) })
	step := len(words) > 1 && strings.Trim(words[0], "0123456789") == ""
	return slices.ContainsFunc(words, func(w string) bool {
		return w == "assert" || w == "asserts" || step && len(words) == 3 && (w == "error" || w == "errors")
	})
}

// foreign reports whether a document that cannot be read is certainly no
// manifest: settings of other programs, whose JSON has comments, and templates.
// In a folder such documents are not errors.
func foreign(ctx context.Context, d *document, p *problem) bool {
	if d.problem != nil {
		return p.foreign // the text has not been kept
	}
	if p.foreign || !mentionsObject(d.text) {
		return true
	}
	plain, commented := withoutComments(d.text)
	if !commented {
		return false
	}
	values, failed := parseJSON(ctx, plain)
	if failed != nil || len(values) != 1 {
		return false
	}
	value, _ := convert(values[0].node)
	object, _ := value.(map[string]any)
	return !isManifest(object)
}

// templated returns the problem of a template that YAML can read, because it has
// {{ … }} where a value may stand: this is a mapping whose key is a mapping. It
// returns nil for other documents.
func templated(d *document, problems []*problem) *problem {
	for _, p := range problems {
		if p.code == "WIN901" && bytes.Contains(d.lineBytes(p.line), []byte("{{")) {
			return newProblem(p.line, p.column, p.code, "this is a template, not YAML: a value is not filled in",
				"render it first: … | mullion lint -")
		}
	}
	return nil
}

// withoutComments returns JSON without comments and without commas at the end of
// lists, and whether there were any: many programs read their settings so.
func withoutComments(text []byte) (plain []byte, commented bool) {
	if t := bytes.TrimLeft(text, " \t\r\n"); len(t) == 0 || t[0] != '{' && t[0] != '[' && t[0] != '/' {
		return nil, false
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		n := 1
		switch rest := text[i:]; {
		case rest[0] == '"':
			n = stringLen(rest)
		case bytes.HasPrefix(rest, []byte("//")):
			n, commented = lineLen(rest), true
			i += n
			continue
		case bytes.HasPrefix(rest, []byte("/*")):
			end := bytes.Index(rest, []byte("*/"))
			if end < 0 {
				return nil, false
			}
			i, commented = i+end+len("*/"), true
			continue
		case rest[0] == '}' || rest[0] == ']':
			if t := bytes.TrimRight(out, " \t\r\n"); bytes.HasSuffix(t, []byte(",")) {
				out, commented = t[:len(t)-1], true
			}
		}
		out = append(out, text[i:i+n]...)
		i += n
	}
	return out, commented
}

// stringLen returns the length of the JSON string at the start of a text.
func stringLen(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// lineLen returns the length of the first line of a text without its ending.
func lineLen(text []byte) int {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return i
	}
	return len(text)
}

// notAnObject is the problem of a document that was read, but is not a manifest.
func notAnObject(n *yaml.Node) *problem {
	p := newProblem(n.Line, n.Column, "WIN908",
		"this is not a Kubernetes object", "pass manifests only; render values files of charts first (helm template)")
	if n.Kind == yaml.MappingNode {
		p.text += ": it has no apiVersion or no kind"
	}
	return p
}
