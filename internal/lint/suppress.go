// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// annotationPrefix is the prefix of the annotations that suppress a rule for an
// object: ignore.lint.mullion.dev/WIN019: "the reason".
const annotationPrefix = "ignore.lint.mullion.dev/"

// suppressPatterns matches the comment that suppresses rules for a line and the
// fields below it: # mullion:ignore WIN019,WIN020 the reason
var suppressPatterns = struct{ comment *regexp.Regexp }{
	regexp.MustCompile(`#\s*mullion:ignore\s+(WIN[0-9]{3}(?:\s*,\s*WIN[0-9]{3})*)[ \t]*(.*)`)}

// ignored holds the comments of a document that suppress rules.
type ignored struct {
	doc         *document
	annotations bool            // one of the objects may have an annotation that suppresses a rule
	comments    map[int]comment // by line
	lines       []string        // nil if there is no such comment
}

// comment suppresses rules, for a reason.
type comment struct {
	codes  []string
	reason string
	column int
}

// suppressions reads the comments of a document, once for all its objects.
func suppressions(d *document) *ignored {
	out := &ignored{doc: d, annotations: bytes.Contains(d.text, []byte(annotationPrefix))}
	if !bytes.Contains(d.text, []byte("mullion:ignore")) {
		return out
	}
	out.lines, out.comments = d.lines(), map[int]comment{}
	for i, line := range out.lines {
		m := suppressPatterns.comment.FindStringSubmatchIndex(line)
		if m == nil {
			continue
		}
		out.comments[i+1] = comment{
			codes: strings.FieldsFunc(line[m[2]:m[3]], func(r rune) bool {
				return r == ',' || r == ' ' || r == '\t'
			}),
			reason: strings.TrimSpace(line[m[4]:m[5]]),
			column: strings.IndexByte(line, '#') + 1,
		}
	}
	return out
}

// apply marks the findings of an object that a comment or an annotation
// suppresses. A suppression without a reason has no effect.
func (s *ignored) apply(root *yaml.Node, object map[string]any, found []Result) []Result {
	if len(s.comments) > 0 {
		s.byComment(root, found)
	}
	if s.annotations {
		found = suppressByAnnotation(object, found)
	}
	return found
}

func suppressByAnnotation(object map[string]any, found []Result) []Result {
	for i, r := range found {
		reason := tree.Root(object).At(r.Scope).Find("metadata", "annotations", annotationPrefix+r.Code)
		if r.Suppressed == "" {
			found[i].Suppressed = strings.TrimSpace(reason.Str())
		}
	}
	return found
}

// byComment checks the line of the field, the lines of its parents in the tree,
// and the comments directly above each of them.
func (s *ignored) byComment(root *yaml.Node, found []Result) {
	for i, r := range found {
		for depth := range len(r.Path) + 1 {
			n := locate(root, r.Path[:depth]).Line
			for at := n; at >= 1 && at <= len(s.lines) && (at == n || commented(s.lines[at-1])); at-- {
				if c := s.comments[at]; c.reason != "" && slices.Contains(c.codes, r.Code) {
					found[i].Suppressed = c.reason
				}
			}
		}
	}
}

// commented reports whether a line is only a comment.
func commented(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " \t"), "#") }

// unexplained reports the comments that give no reason.
func (s *ignored) unexplained() []Result {
	var out []Result
	for n, c := range s.comments {
		if c.reason != "" {
			continue
		}
		r := newProblem(n, c.column, "WIN907",
			"a suppression without a reason has no effect",
			"write why: # mullion:ignore "+c.codes[0]+" the reason").result(s.doc)
		r.Severity = policy.Warning
		out = append(out, r)
	}
	return out
}
