// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// applyText returns the text of a document after an edit. The caller must check
// that the result is right.
func (t editor) applyText(root *yaml.Node, e tree.Edit) (change, bool) {
	switch e.Op {
	case tree.Remove:
		return t.remove(root, e.Path)
	case tree.Replace:
		return t.replace(root, e.Path, e.Value)
	}
	return t.add(root, e.Path, e.Value)
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

// change replaces a part of a text.
type change struct {
	from, to int
	with     string
}

func (t editor) splice(from, to int, with string) (change, bool) {
	return change{from, to, with}, from >= 0 && to >= from && to <= len(t.text)
}

// write applies changes that do not overlap.
func write(text []byte, changes []change) ([]byte, bool) {
	slices.SortStableFunc(changes, func(a, b change) int { return a.from - b.from })
	var out []byte
	at := 0
	for _, c := range changes {
		if c.from < at {
			return nil, false
		}
		out = append(append(out, text[at:c.from]...), c.with...)
		at = c.to
	}
	return append(out, text[at:]...), true
}

func (t editor) line(n int) string {
	if n < 1 || n > len(t.lines) {
		return ""
	}
	end := len(t.text)
	if n < len(t.lines) {
		end = t.lines[n]
	}
	return strings.TrimRight(string(t.text[t.lines[n-1]:end]), "\r\n\u0085\u2028\u2029")
}

// entry finds a mapping and the index of a key in it.
func entry(root *yaml.Node, path tree.Path) (*yaml.Node, int) {
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

func (t editor) remove(root *yaml.Node, path tree.Path) (change, bool) {
	m, i := entry(root, path)
	if m == nil {
		return change{}, false
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
	if strings.TrimSpace(string(t.text[t.lines[key.Line-1]:from])) != "" { // after the dash of a list
		if i+2 >= len(m.Content) {
			return change{}, false
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
		case in > key.Column-1, in == key.Column-1 && value.Kind == yaml.SequenceNode &&
			(s == "-" || strings.HasPrefix(s, "- ")):
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

// flowEnd returns the end of a value in flow style.
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

func (t editor) replace(root *yaml.Node, path tree.Path, value any) (change, bool) {
	m, i := entry(root, path)
	if m == nil || m.Content[i+1].Kind != yaml.ScalarNode ||
		m.Content[i+1].Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return change{}, false
	}
	v, asJSON := m.Content[i+1], t.json(m)
	from := t.offset(v)
	to := from + len(v.Value)
	switch {
	case v.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		quote := t.text[from]
		for to = from + 1; to < len(t.text) && t.text[to] != quote; to++ {
			if t.text[to] == '\\' && quote == '"' {
				to++
			}
		}
		to++
	case v.Value == "": // a key and a colon only
		key := m.Content[i]
		colon := bytes.IndexByte(t.text[t.offset(key)+len(key.Value):], ':')
		if colon < 0 {
			return change{}, false
		}
		at := t.offset(key) + len(key.Value) + colon + 1
		return t.splice(at, at, " "+flow(value, asJSON))
	}
	return t.splice(from, to, flow(value, asJSON))
}

// json reports whether a mapping is written as JSON.
func (t editor) json(m *yaml.Node) bool {
	return m.Style&yaml.FlowStyle != 0 && len(m.Content) > 0 && m.Content[0].Style&yaml.DoubleQuotedStyle != 0
}

func (t editor) add(root *yaml.Node, path tree.Path, value any) (change, bool) {
	m, rest, holder := root, path, root
	for len(rest) > 0 {
		_, v := child(m, rest[0], maxDepth) // without merge keys and aliases
		if v == nil || v.Kind == yaml.AliasNode {
			break
		}
		if m.Kind == yaml.MappingNode {
			holder = m
		}
		m, rest = v, rest[1:]
	}
	switch {
	case m.Kind == yaml.SequenceNode && len(rest) == 1 && rest[0].Index == len(m.Content):
		return t.appendItem(m, value, t.json(holder))
	case slices.ContainsFunc(rest, func(s tree.Step) bool { return s.Index >= 0 }):
		return change{}, false
	case m.Kind == yaml.ScalarNode && (len(rest) == 0 || m.Tag == "!!null"):
		return t.replace(root, path[:len(path)-len(rest)], nest(rest, value))
	case m.Kind != yaml.MappingNode || len(rest) == 0:
		return change{}, false
	case m.Style&yaml.FlowStyle != 0:
		return t.addFlow(m, rest, value, t.json(m) || len(m.Content) == 0 && t.json(holder))
	}
	return t.addBlock(m, rest, value)
}

// nest wraps a value into the maps of a path.
func nest(path tree.Path, value any) any {
	for _, p := range slices.Backward(path) {
		value = map[string]any{p.Key: value}
	}
	return value
}

// addFlow adds a key before the first key of a mapping in flow style, on the
// same line or, if the first key has its own line, on a new one.
func (t editor) addFlow(m *yaml.Node, rest tree.Path, value any, asJSON bool) (change, bool) {
	text := flowEntry(rest[0].Key, nest(rest[1:], value), asJSON)
	at := t.offset(m) + 1
	if at > len(t.text) || t.text[at-1] != '{' {
		return change{}, false
	}
	if len(m.Content) > 0 {
		at = t.offset(m.Content[0])
		if prefix := string(t.text[t.lines[m.Content[0].Line-1]:at]); strings.TrimSpace(prefix) == "" {
			text += "," + t.newline() + prefix
		} else {
			text += ", "
		}
	}
	return t.splice(at, at, text)
}

// addBlock adds lines before the first key of a block mapping that begins its
// line (in a list item, the key follows the dash).
func (t editor) addBlock(m *yaml.Node, rest tree.Path, value any) (change, bool) {
	for i := 0; i < len(m.Content); i += 2 {
		line := m.Content[i].Line
		prefix := string(t.text[t.lines[line-1]:t.offset(m.Content[i])])
		if strings.TrimSpace(prefix) != "" {
			continue
		}
		for line > 1 && strings.HasPrefix(t.line(line-1), prefix+"#") { // comments stay with their key
			line--
		}
		lines := blockEntry(prefix, rest[0].Key, nest(rest[1:], value))
		return t.splice(t.lines[line-1], t.lines[line-1], strings.Join(lines, t.newline())+t.newline())
	}
	return change{}, false
}

// appendItem adds an element after the last one of a list.
func (t editor) appendItem(list *yaml.Node, value any, asJSON bool) (change, bool) {
	if list.Style&yaml.FlowStyle != 0 {
		if len(list.Content) == 0 {
			at := t.offset(list) + 1
			return t.splice(at, at, flow(value, asJSON))
		}
		at := t.flowEnd(t.offset(list.Content[len(list.Content)-1]))
		return t.splice(at, at, ", "+flow(value, asJSON))
	}
	if len(list.Content) == 0 || list.Line < 1 {
		return change{}, false
	}
	dash := t.offset(list)
	prefix := string(t.text[t.lines[list.Line-1]:dash])
	if dash >= len(t.text) || t.text[dash] != '-' || strings.TrimSpace(prefix) != "" {
		return change{}, false
	}
	last := list.Content[len(list.Content)-1].Line
	for n := last + 1; n <= len(t.lines); n++ {
		if l := t.line(n); strings.TrimSpace(l) != "" {
			if indent(l) <= len(prefix) {
				break
			}
			last = n
		}
	}
	text := strings.Join(blockItem(prefix, value), t.newline())
	if last < len(t.lines) {
		return t.splice(t.lines[last], t.lines[last], text+t.newline())
	}
	return t.splice(len(t.text), len(t.text), t.newline()+text)
}

// newline returns the line ending of the text's first line.
func (t editor) newline() string {
	if len(t.lines) > 1 && t.text[t.lines[1]-1] == '\r' {
		return "\r"
	} else if len(t.lines) > 1 && t.lines[1] > 1 && t.text[t.lines[1]-2] == '\r' {
		return "\r\n"
	}
	return "\n"
}
