// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package plainyaml reads YAML of the plain kind that most manifests are written in, in a
// fraction of the time of a parser of all of YAML: ASCII, block mappings and sequences,
// flow collections and scalars on one line each. It leaves everything else to the parser;
// its results equal the parser's, as a fuzz test verifies.
package plainyaml

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth and maxKey are far above the values in manifests, and below the parser's
// own limits.
const (
	maxDepth = 100
	maxKey   = 256 // bytes
)

// Parse returns the value of a document without its comments, as package yaml
// decodes it. It reports false if the text is not plain; it may be YAML nevertheless.
func Parse(text []byte) (*yaml.Node, bool) {
	p := parser{text: string(text)}
	if !p.split() || len(p.lines) == 0 {
		return nil, false
	}
	p.enter()
	root := p.block(0)
	if root == nil || p.current < len(p.lines) {
		return nil, false
	}
	return root, true
}

// line is a line with more on it than blanks and a comment.
type line struct{ number, start, indent, end int } // start and end are offsets; no blanks before the end

// parser holds a text, and a place in it. Its methods return nil for text that
// is not plain.
type parser struct {
	text    string
	lines   []line
	current int // line
	at      int // offset of the next character on it

	open  []*yaml.Node // the children of the collections that are being read
	nodes []yaml.Node  // space for nodes
	lists []*yaml.Node // space for their children
}

// split finds the lines. It reports false if there is something that is not plain.
func (p *parser) split() bool {
	p.lines = make([]line, 0, len(p.text)/24+1) // the usual length of a line
	number, begun := 0, false
	for start := 0; start < len(p.text); {
		number++
		end := start
		for end < len(p.text) && p.text[end] != '\n' {
			if c := p.text[end]; c < ' ' || c > '~' {
				return false
			}
			end++
		}
		content := strings.TrimRight(p.text[start:end], " ")
		indent := len(content) - len(strings.TrimLeft(content, " "))
		switch {
		case len(content) == indent || content[indent] == '#':
		case content == "---" && len(p.lines) == 0 && !begun:
			begun = true
		case indent == 0 &&
			(content[0] == '%' || strings.HasPrefix(content, "---") || strings.HasPrefix(content, "...")):
			return false
		default:
			p.lines = append(p.lines, line{number, start, indent, start + len(content)})
		}
		start = end + 1
	}
	return true
}

// enter moves to the first character of the current line.
func (p *parser) enter() {
	if p.current < len(p.lines) {
		p.at = p.lines[p.current].start + p.lines[p.current].indent
	}
}

// advance moves to the next line.
func (p *parser) advance() {
	p.current++
	p.enter()
}

// indent returns the indentation of the current line; -1 behind the last one.
func (p *parser) indent() int {
	if p.current == len(p.lines) {
		return -1
	}
	return p.lines[p.current].indent
}

// rest returns the rest of the current line.
func (p *parser) rest() string { return p.text[p.at:p.lines[p.current].end] }

func (p *parser) blanks() {
	for p.at < p.lines[p.current].end && p.text[p.at] == ' ' {
		p.at++
	}
}

// ended reports whether the rest of the current line is empty or a comment.
func (p *parser) ended() bool {
	from := p.at
	p.blanks()
	rest := p.rest()
	return rest == "" || rest[0] == '#' && p.at > from
}

// column returns the column of the current place, from 0.
func (p *parser) column() int { return p.at - p.lines[p.current].start }

// node returns a new node at the current place.
func (p *parser) node(kind yaml.Kind, style yaml.Style, tag, value string) *yaml.Node {
	if len(p.nodes) == 0 {
		p.nodes = make([]yaml.Node, max(8, min(128, 4*(len(p.lines)-p.current))))
	}
	n := &p.nodes[0]
	p.nodes = p.nodes[1:]
	n.Kind, n.Style, n.Tag, n.Value = kind, style, tag, value
	n.Line, n.Column = p.lines[p.current].number, p.column()+1
	return n
}

// close gives a collection its children: the open nodes from a place on.
func (p *parser) close(n *yaml.Node, from int) *yaml.Node {
	count := len(p.open) - from
	if len(p.lists) < count {
		p.lists = make([]*yaml.Node, max(count, 128))
	}
	n.Content = p.lists[:count:count]
	p.lists = p.lists[count:]
	copy(n.Content, p.open[from:])
	p.open = p.open[:from]
	return n
}

// block reads the collection that begins at the current place.
func (p *parser) block(depth int) *yaml.Node {
	switch {
	case depth > maxDepth:
		return nil
	case strings.HasPrefix(p.rest(), "- "):
		return p.sequence(depth)
	}
	return p.mapping(depth)
}

func (p *parser) mapping(depth int) *yaml.Node {
	column, from := p.column(), len(p.open)
	n := p.node(yaml.MappingNode, 0, "!!map", "")
	for {
		key := p.key()
		if key == nil {
			return nil
		}
		value := p.value(column, depth)
		if value == nil {
			return nil
		}
		p.open = append(p.open, key, value)
		switch in := p.indent(); {
		case in > column:
			return nil
		case in < column:
			return p.close(n, from)
		}
	}
}

// key reads a key with its colon. It returns nil if there is no key.
func (p *parser) key() *yaml.Node {
	text, style := keyOf(p.rest())
	if text == "" {
		return nil
	}
	n := p.plain(text)
	length := len(text)
	if style != 0 {
		n.Style, n.Tag, length = style, "!!str", length+2
	}
	p.at += length + 1
	return n
}

// keyOf returns the key at the start of a text, or "" if there is no key.
func keyOf(text string) (key string, style yaml.Style) {
	length := 0
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		key, _ = quoted(text)
		style, length = styleOf(text[0]), len(key)+2
	} else if text != "" && simple(text[0]) {
		for length < len(text) && (simple(text[length]) || text[length] == '-') {
			length++
		}
		key = text[:length]
	}
	if after := text[min(length, len(text)):]; len(key) > maxKey || after != ":" && !strings.HasPrefix(after, ": ") {
		return "", 0
	}
	return key, style
}

// value reads the value of a key of a mapping, and moves to the next line.
func (p *parser) value(column, depth int) *yaml.Node {
	colon, at := p.current, p.at
	if !p.ended() {
		return p.scalarOrFlow(depth)
	}
	p.advance()
	switch in := p.indent(); {
	case in > column, in == column && strings.HasPrefix(p.rest(), "- "):
		return p.block(depth + 1)
	}
	next := p.current
	p.current, p.at = colon, at
	n := p.node(yaml.ScalarNode, 0, "!!null", "")
	p.current = next
	p.enter()
	return n
}

func (p *parser) sequence(depth int) *yaml.Node {
	column, from := p.column(), len(p.open)
	n := p.node(yaml.SequenceNode, 0, "!!seq", "")
	for {
		p.at++
		if p.ended() {
			return nil
		}
		item := p.item(depth)
		if item == nil {
			return nil
		}
		p.open = append(p.open, item)
		switch in := p.indent(); {
		case in > column:
			return nil
		case in < column || !strings.HasPrefix(p.rest(), "- "):
			return p.close(n, from)
		}
	}
}

// item reads an item of a sequence, and moves to the next line.
func (p *parser) item(depth int) *yaml.Node {
	if key, _ := keyOf(p.rest()); key != "" || strings.HasPrefix(p.rest(), "- ") {
		return p.block(depth + 1)
	}
	return p.scalarOrFlow(depth)
}

// scalarOrFlow reads the rest of the line and advances to the next line.
func (p *parser) scalarOrFlow(depth int) *yaml.Node {
	var n *yaml.Node
	switch rest := p.rest(); rest[0] {
	case '{', '[':
		n = p.flow(depth + 1)
	case '"', '\'':
		n = p.quote()
	default:
		text, _, _ := strings.Cut(rest, " #")
		text = strings.TrimRight(text, " ")
		if !begins(text) || strings.Contains(text, ": ") || text[len(text)-1] == ':' || text == "<<" {
			return nil
		}
		n = p.plain(text)
		p.at += len(text)
	}
	if n == nil || !p.ended() {
		return nil
	}
	p.advance()
	return n
}

// flow reads a collection in braces or brackets.
func (p *parser) flow(depth int) *yaml.Node {
	if depth > maxDepth {
		return nil
	}
	from, last, n := len(p.open), byte('}'), p.node(yaml.MappingNode, yaml.FlowStyle, "!!map", "")
	if p.text[p.at] == '[' {
		last, n.Kind, n.Tag = ']', yaml.SequenceNode, "!!seq"
	}
	p.at++
	p.blanks()
	if strings.HasPrefix(p.rest(), string(last)) {
		p.at++
		return p.close(n, from)
	}
	for {
		if last == '}' {
			key := p.flowScalar()
			if key == nil || !strings.HasPrefix(p.rest(), ": ") {
				return nil
			}
			p.at += 2
			p.blanks()
			p.open = append(p.open, key)
		}
		value := p.flowValue(depth)
		if value == nil {
			return nil
		}
		p.open = append(p.open, value)
		p.blanks()
		switch rest := p.rest(); {
		case rest != "" && rest[0] == last:
			p.at++
			return p.close(n, from)
		case !strings.HasPrefix(rest, ", "):
			return nil
		}
		p.at++
		p.blanks()
	}
}

func (p *parser) flowValue(depth int) *yaml.Node {
	if rest := p.rest(); rest != "" && (rest[0] == '{' || rest[0] == '[') {
		return p.flow(depth + 1)
	}
	return p.flowScalar()
}

// flowScalar reads a scalar in a flow collection. A plain one ends before the colon
// of a key.
func (p *parser) flowScalar() *yaml.Node {
	rest := p.rest()
	if rest == "" {
		return nil
	}
	if rest[0] == '"' || rest[0] == '\'' {
		return p.quote()
	}
	if !simple(rest[0]) && (rest[0] != '-' || len(rest) == 1 || !simple(rest[1])) {
		return nil
	}
	length := 1
	for length < len(rest) && (simple(rest[length]) || rest[length] == '-' ||
		rest[length] == ':' && length+1 < len(rest) && simple(rest[length+1])) {
		length++
	}
	if after := rest[length:]; after == "" || !strings.ContainsRune(",:]}", rune(after[0])) || length > maxKey {
		return nil
	}
	n := p.plain(rest[:length])
	p.at += length
	return n
}

// quote reads a scalar in quotes.
func (p *parser) quote() *yaml.Node {
	text, ok := quoted(p.rest())
	if !ok {
		return nil
	}
	n := p.node(yaml.ScalarNode, styleOf(p.text[p.at]), "!!str", text)
	p.at += len(text) + 2
	return n
}

// plain returns the scalar at the current place.
func (p *parser) plain(text string) *yaml.Node {
	n := p.node(yaml.ScalarNode, 0, "", text)
	if c := text[0]; letter(c) && !strings.ContainsRune("yYnNtTfFoO", rune(c)) || c == '/' || c == '_' {
		n.Tag = "!!str" // values of other types begin with other characters
	} else {
		n.Tag = n.ShortTag()
	}
	return n
}

// begins reports whether a text begins as a plain scalar does.
func begins(text string) bool {
	return text != "" && (simple(text[0]) || strings.ContainsRune("$()+=;<^~\\", rune(text[0])) ||
		text[0] == '-' && len(text) > 1 && text[1] != ' ')
}

// quoted returns the content of the quotes at the start of a text, if it has no
// escapes.
func quoted(text string) (string, bool) {
	inside, after, ok := strings.Cut(text[1:], text[:1])
	if !ok || text[0] == '"' && strings.Contains(inside, `\`) || text[0] == '\'' && strings.HasPrefix(after, "'") {
		return "", false
	}
	return inside, true
}

func styleOf(quote byte) yaml.Style {
	if quote == '"' {
		return yaml.DoubleQuotedStyle
	}
	return yaml.SingleQuotedStyle
}

func letter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// simple reports whether a character is literal anywhere in YAML.
func simple(c byte) bool {
	return letter(c) || '0' <= c && c <= '9' || c == '_' || c == '.' || c == '/'
}
