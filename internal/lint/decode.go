// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/mullion-k8s/mullion/internal/lint/plainyaml"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// problem describes why a document, or a part of it, cannot be checked.
type problem struct {
	line, column int // in the document, from 1
	code         string
	text, fix    string
	foreign      bool // the document is certainly no manifest, broken or not
}

func newProblem(line, column int, code, text, fix string) *problem {
	return &problem{line: max(line, 1), column: max(column, 1), code: code, text: text, fix: fix}
}

// severity of a problem. A document with a duplicate key is read nevertheless.
func (p *problem) severity() policy.Severity {
	if p.code == "WIN902" {
		return policy.Warning
	}
	return policy.Error
}

// result returns the finding at its place in the document.
func (p *problem) result(d *document) Result {
	return Result{
		Finding: policy.Finding{Code: p.code, Severity: p.severity(), Message: p.text, Fix: p.fix},
		File:    d.name,
		Line:    p.line,
		Column:  p.column,
	}
}

// parsed is a value of a document, or the reason why it could not be read.
type parsed struct {
	node    *yaml.Node
	problem *problem
}

// parse reads a document: YAML, or one or more JSON values. If the context
// ends, so does the reading, and the result is invalid.
func parse(ctx context.Context, d *document) []parsed {
	if !utf8.Valid(d.text) {
		i := 0
		for i < len(d.text) {
			r, n := utf8.DecodeRune(d.text[i:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			i += n
		}
		before := d.text[:i]
		line, column := bytes.Count(before, []byte("\n"))+1, i-bytes.LastIndexByte(before, '\n')
		return []parsed{{problem: newProblem(line, column, "WIN904", "this is not UTF-8", "save the file as UTF-8")}}
	}
	if t := bytes.TrimLeft(d.text, " \t\r\n"); len(t) > 0 && (t[0] == '{' || t[0] == '[') {
		nodes, p := parseJSON(ctx, d.text)
		if p == nil {
			return nodes
		}
		// YAML's flow style resembles JSON.
		if node, err := parseYAML(ctx, d.text); err == nil {
			return []parsed{{node: node}}
		} else if !strings.HasSuffix(d.name, ".json") && !bytes.Contains(t[:min(len(t), 200)], []byte(`":`)) {
			return []parsed{{problem: syntax(d, err)}}
		}
		if lines := d.lines(); p.line <= len(lines) && braces(lines[p.line-1]) {
			p.unrendered(p.line)
		}
		return append(nodes, parsed{problem: p})
	}
	if node, ok := plainyaml.Parse(d.text); ok && ctx.Err() == nil {
		return []parsed{{node: node}}
	}
	node, err := parseYAML(ctx, d.text)
	if err != nil {
		return []parsed{{problem: syntax(d, err)}}
	}
	if node == nil {
		return nil
	}
	return []parsed{{node: node}}
}

// parseYAML returns the value of a document, nil if it is empty. A panic of the
// parser becomes an error: input must not crash the program.
func parseYAML(ctx context.Context, text []byte) (node *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: line 1: the parser gave up: %v", r)
		}
	}()
	var doc, more yaml.Node
	dec := yaml.NewDecoder(interruptible{ctx, bytes.NewReader(text)})
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := dec.Decode(&more); err == nil {
		return nil, fmt.Errorf("yaml: line %d: a second document without a --- line before it", max(more.Line, 1))
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return doc.Content[0], nil
}

var yamlPatterns = struct{ line *regexp.Regexp }{regexp.MustCompile(`line (\d+): `)}

// syntax turns an error of the YAML parser into a position and advice. The
// parser names the line where it gave up, often one after the error.
func syntax(d *document, err error) *problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	p := &problem{
		line:   1,
		column: 1,
		code:   "WIN901",
		text:   "this is not YAML: " + text,
		fix:    "fix the indentation or the quotes of this line",
	}
	if m := yamlPatterns.line.FindStringSubmatch(text); m != nil {
		p.line, _ = strconv.Atoi(m[1]) // digits
		p.text = "this is not YAML: " + strings.Replace(text, m[0], "", 1)
		if strings.Contains(text, "did not find expected ',' or") {
			p.line++ // in flow style, the parser counts from 0
		}
	}
	lines := d.lines()
	p.line = max(1, min(p.line, len(lines)))
	if i := slices.IndexFunc(lines, directive); i >= 0 {
		p.unrendered(i + 1)
	} else if n := dedent(lines); n > 0 && (strings.Contains(text, "did not find expected") ||
		strings.Contains(text, "mapping values")) {
		want := outer(lines, n)
		p.line = n
		key := strings.TrimSpace(lines[n-1])
		p.text = fmt.Sprintf("this is not YAML: %q is indented by %d, which matches no level above it",
			key, indent(lines[n-1]))
		p.fix = fmt.Sprintf("indent it by %d, like %q", indent(lines[want-1]), strings.TrimSpace(lines[want-1]))
	} else if i := strings.IndexByte(lines[p.line-1], '\t'); i >= 0 && strings.TrimSpace(lines[p.line-1][:i]) == "" {
		p.column = i + 1
		p.fix = "indent with spaces: YAML has no tabs"
		return p
	} else if i := slices.IndexFunc(lines[:min(p.line+1, len(lines))], braces); i >= 0 {
		p.unrendered(i + 1) // the parser may have given up on the line before it
	} else if slices.ContainsFunc(lines, substitution) {
		p.foreign = true
		p.text = "this is a template, not YAML: " + strings.TrimPrefix(p.text, "this is not YAML: ")
		p.fix = "fill in its variables first: envsubst < FILE | mullion lint -"
	} else if strings.Contains(text, "unknown escape") {
		p.fix = "double the backslash, or use single quotes"
	}
	p.column = indent(lines[p.line-1]) + 1
	return p
}

// unrendered makes the problem one of a template that has not been rendered.
func (p *problem) unrendered(line int) {
	p.line, p.foreign = line, true
	p.text = "this is a template, not " + strings.TrimPrefix(p.text, "this is not ") // YAML, or JSON
	p.fix = "render it first: helm template CHART | mullion lint -"
}

func braces(line string) bool { return strings.Contains(line, "{{") }

// directive reports whether a line is an instruction of a template, such as
// {{- if .Windows }}.
func directive(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " \t"), "{{") }

// substitution reports whether a line has a variable such as ${NAMES} in a list in
// flow style, where YAML reads the beginning of a mapping, or only a variable, or one
// such as {PREFIX} with text behind it, or {{.Name}} without quotes.
func substitution(line string) bool {
	if strings.Contains(line, ": {{") || strings.Contains(line, "- {{") {
		return true
	}
	if _, value, ok := strings.Cut(line, ": {"); ok {
		name, rest, _ := strings.Cut(value, "}")
		if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' && name != "" &&
			strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == "" {
			return true
		}
	}
	if strings.HasPrefix(line, "$") && !strings.ContainsAny(line, " :") {
		return true
	}
	list, rest, found := strings.Cut(line, "${")
	return found && strings.ContainsAny(list, "[{") && strings.Contains(rest, "}")
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// dedent returns the first line that is indented less than the line before it,
// but not to an enclosing level, or 0 if there is no such line.
func dedent(lines []string) int {
	var open []int
	for i, l := range lines {
		t := strings.TrimSpace(l)
		if t == "" || t[0] == '#' || separator([]byte(l)) {
			continue
		}
		n := indent(l)
		for len(open) > 0 && open[len(open)-1] > n {
			open = open[:len(open)-1]
			if len(open) == 0 || open[len(open)-1] < n {
				return i + 1
			}
		}
		if len(open) == 0 || open[len(open)-1] < n {
			open = append(open, n)
		}
		// "- key: value" opens the level of the key too.
		for rest := l[n:]; strings.HasPrefix(rest, "- "); rest = rest[2:] {
			n += 2
			open = append(open, n)
		}
	}
	return 0
}

// outer returns the line above n that begins a mapping entry on a level to
// which line n can belong: the one with the nearest indentation.
func outer(lines []string, n int) int {
	best, distance := 1, math.MaxInt
	want := indent(lines[n-1])
	for i := n - 2; i >= 0; i-- {
		t := strings.TrimSpace(lines[i])
		if t == "" || t[0] == '#' || t[0] == '-' || !strings.Contains(t, ":") {
			continue
		}
		if d := max(indent(lines[i])-want, want-indent(lines[i])); d < distance {
			best, distance = i+1, d
		}
	}
	return best
}

// parseJSON reads JSON values into nodes with positions.
func parseJSON(ctx context.Context, text []byte) ([]parsed, *problem) {
	p := &jsonParser{
		text:   text,
		dec:    json.NewDecoder(interruptible{ctx, bytes.NewReader(text)}),
		line:   1,
		column: 1,
	}
	p.dec.UseNumber()
	var out []parsed
	for {
		n, err := p.value(0)
		if errors.Is(err, io.EOF) && n == nil {
			return out, nil
		}
		if err != nil {
			p.seek(p.dec.InputOffset())
			if errors.Is(err, errDeep) {
				return out, newProblem(p.line, p.column, "WIN903", err.Error(), "check that this is the right file")
			}
			return out, newProblem(p.line, p.column, "WIN901",
				"this is not JSON: "+err.Error(), "fix it here or just before")
		}
		out = append(out, parsed{node: n})
	}
}

var errDeep = fmt.Errorf("nested deeper than %d levels", maxDepth)

type jsonParser struct {
	text []byte
	dec  *json.Decoder
	at   int64 // the position that line and column refer to

	line, column int // in characters, as the YAML parser counts
}

func (p *jsonParser) seek(to int64) {
	for p.at < to {
		if n := lineBreak(p.text[p.at:]); n > 0 {
			p.at += int64(n)
			p.line++
			p.column = 1
			continue
		}
		if utf8.RuneStart(p.text[p.at]) {
			p.column++
		}
		p.at++
	}
}

// token reads the next token and sets the position to its beginning.
func (p *jsonParser) token() (json.Token, error) {
	begin := p.dec.InputOffset()
	for begin < int64(len(p.text)) && strings.IndexByte(" \t\r\n,:", p.text[begin]) >= 0 {
		begin++
	}
	t, err := p.dec.Token()
	p.seek(begin)
	return t, err
}

func (p *jsonParser) value(depth int) (*yaml.Node, error) {
	t, err := p.token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: p.line, Column: p.column}
	switch t := t.(type) {
	case string:
		n.Tag, n.Value, n.Style = "!!str", t, yaml.DoubleQuotedStyle
	case json.Number:
		n.Tag, n.Value = "!!int", t.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(t)
	case nil:
		n.Tag, n.Value = "!!null", "null"
	case json.Delim:
		if depth > maxDepth {
			return n, errDeep
		}
		n.Kind, n.Tag, n.Style = yaml.MappingNode, "!!map", yaml.FlowStyle
		if t == '[' {
			n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		}
		for p.dec.More() {
			c, err := p.value(depth + 1)
			if err != nil {
				return n, err
			}
			n.Content = append(n.Content, c)
		}
		if _, err := p.dec.Token(); err != nil { // the closing bracket
			return n, io.ErrUnexpectedEOF
		}
	}
	return n, nil
}

// convert returns the tree that encoding/json would produce for the node, as
// kubectl reads YAML: aliases and merge keys are resolved, yes and no are
// booleans (YAML 1.1).
func convert(n *yaml.Node) (any, []*problem) {
	c := converter{}
	v := c.value(n, 0)
	return v, c.problems
}

type converter struct {
	aliases  int // nodes that aliases have expanded to
	inside   int // aliases being resolved
	problems []*problem
	stopped  bool // over a limit
}

func (c *converter) stop(n *yaml.Node, code, text, fix string) any {
	if !c.stopped {
		c.problems = append(c.problems, newProblem(n.Line, n.Column, code, text, fix))
	}
	c.stopped = true
	return nil
}

func (c *converter) value(n *yaml.Node, depth int) any {
	if c.stopped {
		return nil
	}
	if depth > maxDepth {
		return c.stop(n, "WIN903", errDeep.Error(), "check that this is the right file")
	}
	if c.inside > 0 {
		if c.aliases++; c.aliases > maxAliasNodes {
			return c.stop(n, "WIN903",
				fmt.Sprintf("the aliases of this document expand to more than %d values", maxAliasNodes),
				"write them out; this is how alias bombs look")
		}
	}
	switch n.Kind {
	case yaml.AliasNode:
		c.inside++
		defer func() { c.inside-- }()
		return c.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, e := range n.Content {
			out[i] = c.value(e, depth+1)
		}
		return out
	case yaml.MappingNode:
		return c.mapping(n, depth)
	}
	return scalar(n)
}

func (c *converter) mapping(n *yaml.Node, depth int) any {
	out := make(map[string]any, len(n.Content)/2)
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Tag == "!!merge" {
			merges = append(merges, v)
			continue
		}
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode {
			c.problems = append(c.problems, newProblem(k.Line, k.Column, "WIN901",
				"a key must be a string", "quote the text in braces (templates must be rendered first)"))
			continue
		}
		name := keyName(k)
		if _, twice := out[name]; twice {
			c.problems = append(c.problems, newProblem(k.Line, k.Column, "WIN902",
				fmt.Sprintf("the key %q is given twice", name),
				"remove one of them; to kubectl and helm the last one counts, and kustomize refuses the file"))
		}
		out[name] = c.value(v, depth+1)
	}
	for _, m := range merges {
		c.merge(out, m, depth)
	}
	return out
}

// merge adds the entries of a merge key (<<); existing keys take precedence.
func (c *converter) merge(out map[string]any, m *yaml.Node, depth int) {
	from := m
	if c.aliases++; depth > maxDepth || c.aliases > maxAliasNodes {
		c.stop(m, "WIN903", "merge keys within merge keys without end", "write them out")
		return
	}
	if from.Kind == yaml.AliasNode {
		from = from.Alias
	}
	if from.Kind == yaml.SequenceNode {
		for _, e := range from.Content {
			c.merge(out, e, depth+1)
			if c.stopped {
				return
			}
		}
		return
	}
	c.inside++
	add, _ := c.value(from, depth+1).(map[string]any)
	c.inside--
	for k, v := range add {
		if _, ok := out[k]; !ok {
			out[k] = v
		}
	}
}

// keyName returns a key as kubectl reads it: on, y and the like become "true".
func keyName(n *yaml.Node) string {
	if n.Tag == "!!str" && (n.Style != 0 || len(n.Value) > 3) {
		return n.Value
	}
	switch v := scalar(n).(type) {
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return n.Value
}

func scalar(n *yaml.Node) any {
	switch n.Tag {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int":
		text := strings.ReplaceAll(n.Value, "_", "")
		if i, err := strconv.ParseInt(text, 0, 64); err == nil {
			return i
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f
		}
	case "!!float":
		if f, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64); err == nil && !math.IsInf(f, 0) &&
			!math.IsNaN(f) {
			return f
		}
	case "!!str":
		if n.Style == 0 && len(n.Value) <= 3 { // plain
			switch n.Value {
			case "y", "Y", "yes", "Yes", "YES", "on", "On", "ON":
				return true
			case "n", "N", "no", "No", "NO", "off", "Off", "OFF":
				return false
			}
		}
	}
	return n.Value
}

// locate finds the node of a path: the key of a map's entry, or the element of
// a list. For a missing field it finds the nearest existing ancestor.
func locate(root *yaml.Node, path tree.Path) *yaml.Node {
	at, value := root, root
	for _, s := range path {
		for value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		k, v := child(value, s, 0)
		if v == nil {
			break
		}
		at, value = k, v
	}
	return at
}

// child finds one step of a path: the node to point at, and the value.
func child(n *yaml.Node, s tree.Step, depth int) (at, value *yaml.Node) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case depth > maxDepth:
	case s.Index >= 0:
		if n.Kind == yaml.SequenceNode && s.Index < len(n.Content) {
			return n.Content[s.Index], n.Content[s.Index]
		}
	case n.Kind == yaml.MappingNode:
		for i := len(n.Content) - 2; i >= 0; i -= 2 { // the last duplicate counts
			if n.Content[i].Value == s.Key && n.Content[i].Tag != "!!merge" {
				return n.Content[i], n.Content[i+1]
			}
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Tag == "!!merge" {
				if at, v := child(n.Content[i+1], s, depth+1); v != nil {
					return at, v
				}
			}
		}
	case n.Kind == yaml.SequenceNode: // <<: [*a, *b]
		for _, e := range n.Content {
			if at, v := child(e, s, depth+1); v != nil {
				return at, v
			}
		}
	}
	return nil, nil
}
