// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"context"
	"reflect"
	"slices"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// replacement replaces a part of a file. Places count from 1, in characters; the
// end is behind the part.
type replacement struct {
	line, column, endLine, endColumn int
	with                             string
}

// addFixes adds to each finding of a document's only object the replacements that
// resolve it alone, if --fix would write them.
func addFixes(
	ctx context.Context, d *document, judge *rule.Set, root *yaml.Node, object map[string]any,
	facts policy.Facts, found []Result,
) {
	if d.template != nil {
		return
	}
	m := fixer{ctx: ctx, judge: judge, facts: facts, doc: *d, root: root, object: object}
	objects, systems := m.parsed(), m.systems()
	for i := range found {
		edits := slices.DeleteFunc(slices.Clone(found[i].Edits), func(e tree.Edit) bool {
			return e.Op == tree.Add && skipped(object, e.Path) || !mayEdit(objects, e)
		})
		if len(edits) == 0 || len(edits) < len(found[i].Edits) || found[i].Code == "WIN419" {
			continue
		}
		if m.work += len(d.text); m.work > maxFixWorkBytes || ctx.Err() != nil {
			return
		}
		for _, c := range m.alone(edits, systems) {
			found[i].fix = append(found[i].fix, m.doc.replacement(c))
		}
	}
}

// alone returns the changes that write only edits, or nil if that fails.
func (m *fixer) alone(edits []tree.Edit, systems []string) []change {
	t := editor{text: m.doc.text, lines: m.doc.starts()}
	want := m.object
	var changes []change
	for _, e := range edits {
		next, patch, err := tree.Apply(want, []tree.Edit{e})
		if err != nil {
			return nil
		}
		if want = next; len(patch) == 0 {
			continue
		}
		c, can := t.applyText(m.root, patch[0])
		if !can {
			return nil
		}
		changes = append(changes, c)
	}
	again := *m
	text, written := write(m.doc.text, changes)
	if !written || !again.read(text) || !reflect.DeepEqual(again.object, want) ||
		!slices.Equal(again.systems(), systems) {
		return nil
	}
	return changes
}

// replacement returns a change of the document as one of its input.
func (d *document) replacement(c change) replacement {
	out := replacement{with: c.with}
	out.line, out.column = d.inInput(d.lineOf(c.from))
	out.endLine, out.endColumn = d.inInput(d.lineOf(c.to))
	return out
}

// lineOf returns the line and the column of an offset.
func (d *document) lineOf(offset int) (line, column int) {
	starts := d.starts()
	line, found := slices.BinarySearch(starts, offset)
	if found {
		return line + 1, 1
	}
	return line, utf8.RuneCount(d.text[starts[line-1]:offset]) + 1
}
