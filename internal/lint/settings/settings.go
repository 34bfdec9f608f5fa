// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package settings reads .mullion.yaml, in which a repository keeps how lint
// checks it.
package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/mullion-k8s/mullion/internal/lint/checkout"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// FileName is the name of the file, which is in the root of a repository or in a
// folder of it.
const FileName = ".mullion.yaml"

// Settings are the content of a file. Except for Rules, they are the values of the
// flags of the same names.
type Settings struct {
	File string // its path; "" without a file

	Exclude    []string                   // patterns, relative to the folder of the file
	Rules      map[string]policy.Severity // by code; policy.None: disabled
	Builds     []string
	Taints     []string
	Kubernetes string
	Platform   string
	Baseline   string // path, relative to the folder of the file
	FailOn     string
	Placed     bool
}

// The limits of a file.
const (
	maxBytes = 256 << 10
	maxItems = 1000 // of a list or of rules
)

// Find returns the path of the file that applies to a path: in its folder or in
// one above it, within its git checkout. Outside of a checkout folders above it
// count only as far as the working folder. Find returns "" if there is no such
// file.
func Find(path string) string {
	dir := checkout.Real(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		dir = filepath.Dir(dir)
	}
	end := checkout.Root(dir)
	if end == "" {
		end = dir
		if at := checkout.Real("."); strings.HasPrefix(dir, at+string(filepath.Separator)) {
			end = at
		}
	}
	for ; ; dir = filepath.Dir(dir) {
		file := filepath.Join(dir, FileName)
		if info, err := os.Stat(file); err == nil && !info.IsDir() {
			return file
		}
		if dir == end || dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// Read reads a file. known reports whether a rule has a code.
func Read(file string, known func(code string) bool) (Settings, error) {
	f, err := os.Open(file)
	if err != nil {
		return Settings{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return Settings{}, err
	}
	out, err := parse(file, text, known)
	out.File = file
	return out, err
}

// parse reads the text of a file. Errors begin with FILE:LINE:COLUMN.
func parse(file string, text []byte, known func(code string) bool) (Settings, error) {
	p := parser{file: file, known: known}
	if len(text) > maxBytes {
		return Settings{}, fmt.Errorf("%s:1:1: larger than %d KiB", file, maxBytes>>10)
	}
	if !utf8.Valid(text) {
		return Settings{}, fmt.Errorf("%s:1:1: not UTF-8", file)
	}
	root, err := decode(text)
	if err != nil {
		line := "1"
		if m := linePattern.FindStringSubmatch(err.Error()); m != nil {
			line = m[1]
		}
		return Settings{}, fmt.Errorf("%s:%s:1: %w", file, line, err)
	}
	if root == nil {
		return Settings{}, nil // only comments
	}

	p.settings(root)
	return p.out, p.err
}

var linePattern = regexp.MustCompile(`line (\d+)`)

// decode returns the value of a file, or nil if it is empty. A panic of the
// parser becomes an error.
func decode(text []byte) (root *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the YAML parser gave up: %v", r)
		}
	}()
	var doc, more yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := dec.Decode(&more); err == nil {
		return nil, fmt.Errorf("line %d: a second document", max(more.Line, 1))
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return nil, nil
	}
	return doc.Content[0], nil
}

// parser reads a tree of nodes. It keeps the first error.
type parser struct {
	file  string
	known func(code string) bool
	out   Settings
	err   error
}

func (p *parser) fail(n *yaml.Node, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%s:%d:%d: %w", p.file, n.Line, n.Column, fmt.Errorf(format, args...))
	}
}

// keys lists the keys of the file.
func keys() []string {
	return []string{
		"exclude", "rules", "builds", "node-taints", "kubernetes-version", "platform", "placed", "baseline", "fail-on",
	}
}

func (p *parser) settings(root *yaml.Node) {
	p.mapping(root, "the file", func(key, value *yaml.Node) {
		switch key.Value {
		case "exclude":
			p.out.Exclude = p.list(value, key.Value, func(s string) error {
				_, err := checkout.New("/", []string{s})
				return err
			})
		case "rules":
			p.rules(value)
		case "builds":
			p.out.Builds = p.list(value, key.Value, func(s string) error { _, err := winver.Parse(s); return err })
		case "node-taints":
			p.out.Taints = p.list(value, key.Value, func(s string) error { _, err := policy.ParseTaint(s); return err })
		case "kubernetes-version":
			p.out.Kubernetes = p.text(value, key.Value,
				func(s string) error { _, err := policy.ParseVersion(s); return err })
		case "platform":
			p.out.Platform = p.text(value, key.Value, nil)
		case "placed":
			if p.out.Placed = value.Value == "true"; value.Tag != "!!bool" {
				p.fail(value, "placed: want true or false")
			}
		case "baseline":
			p.out.Baseline = p.text(value, key.Value, nil)
		case "fail-on":
			p.out.FailOn = p.text(value, key.Value,
				func(s string) error { _, err := policy.ParseSeverity(s); return err })
		default:
			p.fail(key, "%q is not a setting: want one of %s", short(key.Value), strings.Join(keys(), ", "))
		}
	})
}

// mapping calls f with the entries of a mapping that has no key twice.
func (p *parser) mapping(n *yaml.Node, what string, f func(key, value *yaml.Node)) {
	switch {
	case n.Kind != yaml.MappingNode:
		p.fail(n, "%s: want a mapping, KEY: VALUE", what)
		return
	case len(n.Content)/2 > maxItems:
		p.fail(n, "%s: more than %d entries", what, maxItems)
		return
	}
	var seen []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			p.fail(key, "%s: want a word as a key", what)
			return
		}
		if slices.Contains(seen, key.Value) {
			p.fail(key, "%q is given twice", short(key.Value))
		}
		seen = append(seen, key.Value)
		f(key, n.Content[i+1])
	}
}

// list reads a list of texts.
func (p *parser) list(n *yaml.Node, what string, check func(string) error) []string {
	if n.Kind != yaml.SequenceNode || len(n.Content) > maxItems {
		p.fail(n, "%s: want a list of at most %d values", what, maxItems)
		return nil
	}
	var out []string
	for _, e := range n.Content {
		out = append(out, p.text(e, what, check))
	}
	return out
}

// text reads a single value, as it is written: 2022 is the text "2022".
func (p *parser) text(n *yaml.Node, what string, check func(string) error) string {
	switch {
	case n.Kind != yaml.ScalarNode || n.Value == "":
		p.fail(n, "%s: want a text", what)
		return ""
	case check == nil:
	default:
		if err := check(n.Value); err != nil {
			p.fail(n, "%s: %w", what, err)
		}
	}
	return n.Value
}

func (p *parser) rules(n *yaml.Node) {
	p.out.Rules = map[string]policy.Severity{}
	p.mapping(n, "rules", func(key, value *yaml.Node) {
		if !p.known(key.Value) {
			p.fail(key, "rules: no rule has the code %q", short(key.Value))
		}
		severity, err := policy.ParseSeverity(value.Value)
		if value.Value != "off" && err != nil {
			p.fail(value, "rules: %s: want error, warning, info or off, not %q", short(key.Value), short(value.Value))
		}
		p.out.Rules[key.Value] = severity
	})
}

// short shortens a text for an error.
func short(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}
