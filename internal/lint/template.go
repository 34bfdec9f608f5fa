// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import "strings"

// template finds the lines of a template that made lines of its output.
type template struct {
	rendered []string
	lines    map[string]int // the line with a text; 0 if several have it
}

// newTemplate compares a template with its output.
func newTemplate(source, rendered string) *template {
	t := &template{rendered: strings.Split(rendered, "\n"), lines: map[string]int{}}
	for i, line := range strings.Split(source, "\n") {
		line = strings.TrimSpace(line)
		if _, twice := t.lines[line]; twice {
			t.lines[line] = 0
		} else {
			t.lines[line] = i + 1
		}
	}
	return t
}

// line returns the line of the template for one of the output: the line with
// the same text or, else, that for the closest line before it.
func (t *template) line(n int) (line int, exact bool) {
	for at := min(n, len(t.rendered)); at > 0; at-- {
		if line := t.lines[strings.TrimSpace(t.rendered[at-1])]; line > 0 {
			return line, at == n
		}
	}
	return 1, false
}
