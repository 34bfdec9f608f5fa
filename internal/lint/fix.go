// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// Fixed is what Fix did.
type Fixed struct {
	Text    []byte
	Applied int // edits
	Left    int // edits that could not be written without touching more than their field
}

// Fix applies the edits of all findings to a file. It changes the lines of the
// edited fields only; comments, order and style stay. After every edit the
// text is read again: unless exactly the one field has changed the edit is
// left out. Applying it twice changes nothing more.
func Fix(name string, text []byte, facts policy.Facts) (Fixed, error) {
	judge := policy.New(facts)
	var docs []document
	if err := split(name, bytes.NewReader(text), func(d document) error { docs = append(docs, d); return nil }); err != nil {
		return Fixed{}, err
	}
	out := Fixed{}
	end := int64(0)
	for _, d := range docs {
		out.Text = append(out.Text, text[end:d.offset]...)
		end = d.offset + int64(len(d.text))
		if d.problem != nil {
			end = d.offset
			continue
		}
		mended, applied, left := fixDocument(judge, d, facts)
		out.Text = append(out.Text, mended...)
		out.Applied += applied
		out.Left += left
	}
	out.Text = append(out.Text, text[end:]...)
	return out, nil
}

func fixDocument(judge *policy.Evaluator, d document, facts policy.Facts) (text []byte, applied, left int) {
	text = d.text
	roots := parse(&d)
	if len(roots) != 1 || roots[0].problem != nil {
		return text, 0, 0
	}
	root := roots[0].node
	tree, problems := convert(root)
	object, ok := tree.(map[string]any)
	if !ok || len(problems) > 0 {
		return text, 0, 0
	}
	todo := edits(&d, root, object, judge.EvaluateWith(object, facts))
	if len(todo)*len(text) > maxFixWorkBytes {
		return text, 0, len(todo)
	}
	for _, e := range todo {
		want, changed := applyTree(clone(tree), e)
		if !changed {
			continue
		}
		next, ok := applyText(text, root, e)
		if ok {
			again := parse(&document{name: d.name, text: next})
			if ok = len(again) == 1 && again[0].problem == nil; ok {
				got, problems := convert(again[0].node)
				if ok = len(problems) == 0 && reflect.DeepEqual(got, want); ok {
					text, root, tree = next, again[0].node, got
				}
			}
		}
		if ok {
			applied++
		} else {
			left++
		}
	}
	return text, applied, left
}

// edits collects the edits of the findings that are not suppressed: what is
// removed first. A pod declares itself (os.name) only if no field stays that
// the API server would then refuse.
func edits(d *document, root *yaml.Node, object map[string]any, findings []policy.Finding) []policy.Edit {
	var results []Result
	for _, f := range findings {
		results = append(results, Result{Finding: f})
	}
	results = suppress(d, root, object, results)
	var out []policy.Edit
	seen := map[string]bool{}
	for _, r := range results {
		if r.Suppressed != "" || r.Code == "WIN419" && blocked(r, results) {
			continue
		}
		for _, e := range r.Edits {
			if key := string(e.Op) + e.Path.Pointer(); !seen[key] {
				seen[key] = true
				out = append(out, e)
			}
		}
	}
	order := []policy.EditOp{policy.Remove, policy.Replace, policy.Add}
	slices.SortStableFunc(out, func(a, b policy.Edit) int { return slices.Index(order, a.Op) - slices.Index(order, b.Op) })
	return out
}

// blocked says whether a Linux-only field of the pod stays.
func blocked(r Result, all []Result) bool {
	spec := strings.TrimSuffix(r.Field, "os.name")
	return slices.ContainsFunc(all, func(o Result) bool {
		return strings.HasPrefix(o.Code, "WIN0") && strings.HasPrefix(o.Field, spec) && (len(o.Edits) == 0 || o.Suppressed != "")
	})
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = clone(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = clone(e)
		}
		return out
	}
	return v
}

// applyTree applies an edit to a tree. A map that a removal leaves empty goes
// too.
func applyTree(tree any, e policy.Edit) (any, bool) {
	if len(e.Path) == 0 {
		return tree, false
	}
	step := e.Path[0]
	rest := policy.Edit{Op: e.Op, Path: e.Path[1:], Value: e.Value}
	if step.Index >= 0 {
		l, ok := tree.([]any)
		if !ok || step.Index >= len(l) {
			return tree, false
		}
		sub, changed := applyTree(l[step.Index], rest)
		l[step.Index] = sub
		return l, changed
	}
	m, ok := tree.(map[string]any)
	if tree == nil && e.Op == policy.Add {
		m, ok = map[string]any{}, true
	}
	if !ok {
		return tree, false
	}
	old, there := m[step.Key]
	if len(rest.Path) > 0 {
		sub, changed := applyTree(old, rest)
		if mm, empty := sub.(map[string]any); changed && e.Op == policy.Remove && empty && len(mm) == 0 {
			delete(m, step.Key)
		} else if changed {
			m[step.Key] = sub
		}
		return m, changed
	}
	switch {
	case e.Op == policy.Remove:
		delete(m, step.Key)
		return m, there
	case e.Op == policy.Replace && !there, reflect.DeepEqual(old, e.Value):
		return m, false
	}
	m[step.Key] = e.Value
	return m, true
}

// applyText applies an edit to the text of a document. Whether it did right is
// for the caller to check.
func applyText(text []byte, root *yaml.Node, e policy.Edit) ([]byte, bool) {
	t := editor{text: text, lines: lineStarts(text)}
	switch e.Op {
	case policy.Remove:
		return t.remove(root, e.Path)
	case policy.Replace:
		return t.replace(root, e.Path, e.Value)
	}
	return t.add(root, e.Path, e.Value)
}

func lineStarts(text []byte) []int {
	out := []int{0}
	for i, b := range text {
		if b == '\n' {
			out = append(out, i+1)
		}
	}
	return out
}

type editor struct {
	text  []byte
	lines []int // offsets of the lines
}

// offset of a node: the parser counts lines and characters from 1.
func (t editor) offset(n *yaml.Node) int {
	if n.Line < 1 || n.Line > len(t.lines) {
		return len(t.text)
	}
	at := t.lines[n.Line-1]
	for i := 1; i < n.Column && at < len(t.text); i++ {
		_, size := utf8.DecodeRune(t.text[at:])
		at += size
	}
	return at
}

func (t editor) splice(from, to int, with string) ([]byte, bool) {
	if from < 0 || to < from || to > len(t.text) {
		return nil, false
	}
	return slices.Concat(t.text[:from], []byte(with), t.text[to:]), true
}

func (t editor) line(n int) string {
	if n < 1 || n > len(t.lines) {
		return ""
	}
	end := len(t.text)
	if n < len(t.lines) {
		end = t.lines[n]
	}
	return strings.TrimRight(string(t.text[t.lines[n-1]:end]), "\r\n")
}

// entry finds a mapping and the index of a key in it.
func entry(root *yaml.Node, path policy.Path) (*yaml.Node, int) {
	n := root
	for i, s := range path {
		if n.Kind == yaml.SequenceNode && s.Index >= 0 && s.Index < len(n.Content) {
			n = n.Content[s.Index]
			continue
		}
		if n.Kind != yaml.MappingNode || s.Index >= 0 {
			return nil, 0
		}
		at := -1
		for j := 0; j+1 < len(n.Content); j += 2 {
			if n.Content[j].Value == s.Key {
				at = j
			}
		}
		if at < 0 {
			return nil, 0
		}
		if i == len(path)-1 {
			return n, at
		}
		n = n.Content[at+1]
	}
	return nil, 0
}

func (t editor) remove(root *yaml.Node, path policy.Path) ([]byte, bool) {
	m, i := entry(root, path)
	if m == nil {
		return nil, false
	}
	for len(m.Content) == 2 && len(path) > 1 && path[len(path)-2].Index < 0 { // an empty map goes too
		path = path[:len(path)-1]
		if m, i = entry(root, path); m == nil {
			return nil, false
		}
	}
	key, value := m.Content[i], m.Content[i+1]
	from := t.offset(key)
	if m.Style&yaml.FlowStyle != 0 {
		if i+2 < len(m.Content) {
			return t.splice(from, t.offset(m.Content[i+2]), "")
		}
		to := t.flowEnd(t.offset(value))
		for from > 0 && strings.IndexByte(" \t\r\n", t.text[from-1]) >= 0 {
			from--
		}
		if i > 0 && from > 0 && t.text[from-1] == ',' {
			from--
		}
		return t.splice(from, to, "")
	}
	if strings.TrimSpace(string(t.text[t.lines[key.Line-1]:from])) != "" { // behind the dash of a list
		if i+2 >= len(m.Content) {
			return nil, false
		}
		return t.splice(from, t.offset(m.Content[i+2]), "")
	}
	last := key.Line
	for n := key.Line + 1; n <= len(t.lines); n++ {
		l := t.line(n)
		s := strings.TrimSpace(l)
		switch in := indent(l); {
		case s == "" && value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0:
			continue
		case s == "":
		case in > key.Column-1, in == key.Column-1 && value.Kind == yaml.SequenceNode && (s == "-" || strings.HasPrefix(s, "- ")):
			last = n
			continue
		default:
			n = len(t.lines)
		}
	}
	to := len(t.text)
	if last < len(t.lines) {
		to = t.lines[last]
	}
	return t.splice(t.lines[key.Line-1], to, "")
}

// flowEnd is the end of a value in flow style.
func (t editor) flowEnd(from int) int {
	depth, quote, end := 0, byte(0), from
	for i := from; i < len(t.text); i++ {
		switch b := t.text[i]; {
		case quote != 0:
			if b == '\\' && quote == '"' {
				i++
			} else if b == quote {
				quote = 0
			}
		case b == '"', b == '\'':
			quote = b
		case b == '{', b == '[':
			depth++
		case b == '}', b == ']':
			if depth == 0 {
				return end
			}
			depth--
		case b == ',' && depth == 0:
			return end
		case strings.IndexByte(" \t\r\n", b) >= 0:
			continue
		}
		end = i + 1
	}
	return end
}

func (t editor) replace(root *yaml.Node, path policy.Path, value any) ([]byte, bool) {
	m, i := entry(root, path)
	if m == nil || m.Content[i+1].Kind != yaml.ScalarNode || m.Content[i+1].Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return nil, false
	}
	v := m.Content[i+1]
	from := t.offset(v)
	to := from + len(v.Value)
	if v.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		quote := t.text[from]
		for to = from + 1; to < len(t.text) && t.text[to] != quote; to++ {
			if t.text[to] == '\\' && quote == '"' {
				to++
			}
		}
		to++
	}
	return t.splice(from, to, t.spell(value, t.json(m)))
}

// json says whether a mapping is written as JSON.
func (t editor) json(m *yaml.Node) bool {
	return m.Style&yaml.FlowStyle != 0 && len(m.Content) > 0 && m.Content[0].Style&yaml.DoubleQuotedStyle != 0
}

var fixPatterns = struct{ plain *regexp.Regexp }{regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]+$`)}

func (t editor) spell(v any, asJSON bool) string {
	s, ok := v.(string)
	switch {
	case !ok || asJSON:
		b, err := json.Marshal(v)
		if err != nil {
			return "null"
		}
		return string(b)
	case fixPatterns.plain.MatchString(s):
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

func (t editor) add(root *yaml.Node, path policy.Path, value any) ([]byte, bool) {
	m, rest := root, path
	for len(rest) > 0 {
		_, v := child(m, rest[0], maxDepth) // without merge keys and aliases
		if v == nil || v.Kind == yaml.AliasNode {
			break
		}
		m, rest = v, rest[1:]
	}
	if m.Kind != yaml.MappingNode || len(rest) == 0 || slices.ContainsFunc(rest, func(s policy.Step) bool { return s.Index >= 0 }) {
		return t.replaceIfEqual(root, path, rest, value)
	}
	if m.Style&yaml.FlowStyle != 0 {
		asJSON := t.json(m)
		text := t.spell(value, asJSON)
		for i := len(rest) - 1; i >= 0; i-- {
			key := rest[i].Key
			if asJSON {
				key = strconv.Quote(key)
			}
			if text = key + ": " + text; i > 0 {
				text = "{" + text + "}"
			}
		}
		if len(m.Content) > 0 {
			text += ", "
		}
		at := t.offset(m) + 1
		if at > len(t.text) || t.text[at-1] != '{' {
			return nil, false
		}
		if len(m.Content) > 0 { // in front of the first key, on its line
			at = t.offset(m.Content[0])
		}
		return t.splice(at, at, text)
	}
	if len(m.Content) == 0 {
		return nil, false
	}
	first := m.Content[0]
	line := first.Line
	prefix := string(t.text[t.lines[line-1]:t.offset(first)])
	if strings.TrimSpace(prefix) != "" {
		return nil, false
	}
	for line > 1 && strings.HasPrefix(t.line(line-1), prefix+"#") { // comments stay with their key
		line--
	}
	end := "\n"
	if i := bytes.IndexByte(t.text, '\n'); i > 0 && t.text[i-1] == '\r' {
		end = "\r\n"
	}
	var b strings.Builder
	for i, s := range rest {
		fmt.Fprintf(&b, "%s%s%s:", prefix, strings.Repeat("  ", i), s.Key)
		if i == len(rest)-1 {
			b.WriteString(" " + t.spell(value, false))
		}
		b.WriteString(end)
	}
	return t.splice(t.lines[line-1], t.lines[line-1], b.String())
}

// replaceIfEqual handles an Add of what is there: then it is a Replace.
func (t editor) replaceIfEqual(root *yaml.Node, path, rest policy.Path, value any) ([]byte, bool) {
	if len(rest) > 0 {
		return nil, false
	}
	return t.replace(root, path, value)
}

// FixAll is Fix for a stream.
func FixAll(name string, r io.Reader, facts policy.Facts) (Fixed, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFixBytes+1))
	if err != nil {
		return Fixed{}, fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > maxFixBytes {
		return Fixed{}, fmt.Errorf("mend %s: larger than %d MiB", name, maxFixBytes>>20)
	}
	return Fix(name, text, facts)
}

const (
	// maxFixBytes: files are mended in memory.
	maxFixBytes = 64 << 20
	// maxFixWorkBytes: every edit reads its document again; this is what that
	// may add up to in one document. About three seconds' work.
	maxFixWorkBytes = 16 << 20
)
