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

// suppress marks the findings that a comment or an annotation suppresses. A
// suppression without a reason has no effect and is reported.
func suppress(d *document, root *yaml.Node, object map[string]any, found []Result) []Result {
	if bytes.Contains(d.text, []byte("mullion:ignore")) {
		found = suppressByComment(d, root, found)
	}
	if bytes.Contains(d.text, []byte(annotationPrefix)) {
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

// suppressByComment checks the line of the field, the lines of its parents in
// the tree, and the comments directly above each of them.
func suppressByComment(d *document, root *yaml.Node, found []Result) []Result {
	lines := d.lines()
	comment := func(n int) (codes []string, reason string) {
		if m := suppressPatterns.comment.FindStringSubmatch(lines[n-1]); m != nil {
			return strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }),
				strings.TrimSpace(m[2])
		}
		return nil, ""
	}
	for i, r := range found {
		for depth := range len(r.Path) + 1 {
			n := locate(root, r.Path[:depth]).Line
			if n < 1 || n > len(lines) {
				continue
			}
			for at := n; at >= 1 && (at == n || strings.HasPrefix(strings.TrimSpace(lines[at-1]), "#")); at-- {
				if codes, reason := comment(at); slices.Contains(codes, r.Code) && reason != "" {
					found[i].Suppressed = reason
				}
			}
		}
	}
	for n := range lines {
		if codes, reason := comment(n + 1); codes != nil && reason == "" {
			p := problem{n + 1, strings.IndexByte(lines[n], '#') + 1, "WIN907",
				"a suppression without a reason suppresses nothing", "write why: # mullion:ignore " + codes[0] +
					" the reason"}
			r := p.result(d)
			r.Severity = policy.Warning
			found = append(found, r)
		}
	}
	return found
}
