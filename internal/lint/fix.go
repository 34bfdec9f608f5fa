// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/place"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// Fixed is the result of fixText.
type Fixed struct {
	Text    []byte
	Applied int // edits
	Left    int // edits that could not be written without touching more than their field
}

// fixText applies the edits of all findings to a file, and then the edits that
// admission would make to place its pods: selectors for the operating system
// and, if the nodes are known, for builds, tolerations of their taints,
// spec.os.name. It changes only the lines of the edited fields; comments, order
// and style stay. After every edit it parses the text again and drops the edit
// unless exactly that field has changed. Fixing the result again has no effect.
func fixText(
	ctx context.Context, name string, text []byte, facts policy.Facts, rules map[string]policy.Severity,
) (Fixed, error) {
	judge := rule.New(facts)
	var docs []document
	keep := func(d document) error { docs = append(docs, d); return nil }
	if err := split(ctx, name, bytes.NewReader(text), keep); err != nil {
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
		fixed, applied, left := fixDocument(fixer{ctx: ctx, judge: judge, facts: facts, rules: rules, doc: d})
		if err := ctx.Err(); err != nil {
			return Fixed{}, err
		}
		out.Text = append(out.Text, fixed...)
		out.Applied += applied
		out.Left += left
	}
	out.Text = append(out.Text, text[end:]...)
	return out, nil
}

// maxRounds bounds the rounds: an edit may enable others in the next round
// (once a field is removed, spec.os.name can be set). Usually the second round
// has no findings.
const maxRounds = 4

func fixDocument(m fixer) (text []byte, applied, left int) {
	d := m.doc
	if !m.read(d.text) {
		return d.text, 0, m.countUnread()
	}
	systems := m.systems()
	defer func() {
		if !slices.Equal(m.systems(), systems) { // for any reason, this is not a fix
			text, applied, left = d.text, 0, applied+left
		}
	}()
	for range maxRounds {
		n, l := m.apply(m.edits())
		placed, unplaced := m.apply(m.placement())
		applied, left = applied+n+placed, l+unplaced
		if n+placed == 0 {
			break
		}
	}
	return m.doc.text, applied, left
}

// fixer is a document being fixed: its text and the object in it.
type fixer struct {
	ctx    context.Context // of the call
	judge  *rule.Set
	facts  policy.Facts
	rules  map[string]policy.Severity // see Config.Rules
	doc    document
	root   *yaml.Node
	object map[string]any
	work   int // bytes read so far
}

// read parses a text; it fails unless the text is one object without problems.
func (m *fixer) read(text []byte) bool {
	roots := parse(m.ctx, &document{name: m.doc.name, text: text})
	if len(roots) != 1 || roots[0].problem != nil {
		return false
	}
	value, problems := convert(roots[0].node)
	object, ok := value.(map[string]any)
	if ok = ok && len(problems) == 0; ok {
		m.doc.text, m.doc.lineStarts, m.root, m.object = text, nil, roots[0].node, object
	}
	return ok
}

// parsed returns the objects of the document, without patches of others.
func (m *fixer) parsed() *policy.Parsed {
	out := policy.Parse(m.object)
	out.DropPatches(true)
	return out
}

// systems returns the operating systems of the document's pods. No fix may
// change them.
func (m *fixer) systems() []string { return systemsOf(m.judge, m.object, m.facts) }

// Systems returns the operating systems of the pods of objects, "" where these
// contradict themselves.
func Systems(objects []map[string]any, facts policy.Facts) []string {
	judge := rule.New(facts)
	var out []string
	for _, o := range objects {
		out = append(out, systemsOf(judge, o, facts)...)
	}
	return out
}

func systemsOf(judge *rule.Set, object map[string]any, facts policy.Facts) []string {
	var out []string
	for _, p := range place.Pods(judge, policy.Parse(object), facts) {
		out = append(out, p.OS)
	}
	return out
}

// mayEdit reports whether a fix understands the object that an edit is for.
func mayEdit(objects *policy.Parsed, e tree.Edit) bool {
	at := e.Path.String()
	return !slices.ContainsFunc(objects.Uneditable(), func(p tree.Path) bool {
		return len(p) == 0 || strings.HasPrefix(at, p.String()+".")
	})
}

// mayWrite reports whether an edit of a placement belongs into a file. Defaults
// and guesses do not, and neither does the architecture, which users did not
// specify.
func mayWrite(objects *policy.Parsed, p place.Placement, e tree.Edit) bool {
	return p.Confidence > policy.Low && mayEdit(objects, e) &&
		!strings.HasSuffix(e.Path.String(), "nodeSelector[kubernetes.io/arch]")
}

// countUnread counts the edits that remain because one document has several
// JSON values.
func (m *fixer) countUnread() (left int) {
	for _, p := range parse(m.ctx, &m.doc) {
		if p.problem != nil {
			return 0
		}
		if value, problems := convert(p.node); len(problems) == 0 {
			m.root = p.node
			if m.object, _ = value.(map[string]any); m.object != nil {
				left += len(m.edits()) + len(m.placement())
			}
		}
	}
	return left
}

// apply writes the edits that have an effect, except edits that cannot be
// written without touching more than their field. It writes one edit of each
// item of a List at once, because the document is parsed again each time.
func (m *fixer) apply(todo []tree.Edit) (applied, left int) {
	todo, applied = m.rename(todo)
	for len(todo) > 0 {
		var batch, rest []tree.Edit
		seen := map[int]bool{}
		for _, e := range todo {
			if i := item(e.Path); seen[i] {
				rest = append(rest, e)
			} else {
				seen[i] = true
				batch = append(batch, e)
			}
		}
		n, l := m.applyBatch(batch)
		applied, left, todo = applied+n, left+l, rest
	}
	return applied, left
}

// rename writes each pair of edits that moves a value to another key of its map
// by replacing the key where it stands. It returns the other edits.
func (m *fixer) rename(todo []tree.Edit) (others []tree.Edit, applied int) {
	for _, old := range todo {
		last := len(old.Path) - 1
		i := slices.IndexFunc(todo, func(e tree.Edit) bool {
			return e.Op == tree.Add && len(e.Path) == last+1 && e.Path[last].Index < 0 &&
				slices.Equal(e.Path[:last], old.Path[:last]) &&
				reflect.DeepEqual(e.Value, tree.Root(m.object).At(old.Path).Raw())
		})
		if old.Op != tree.Remove || i < 0 || !m.renameKey(old, todo[i]) {
			continue
		}
		applied++
		todo = slices.DeleteFunc(slices.Clone(todo), func(e tree.Edit) bool {
			return slices.Equal(e.Path, old.Path) || slices.Equal(e.Path, todo[i].Path)
		})
	}
	return todo, applied
}

// renameKey writes one pair of edits as rename does, and reports whether the two
// have the same result for the object.
func (m *fixer) renameKey(remove, add tree.Edit) bool {
	want, _, err := tree.Apply(m.object, []tree.Edit{add, remove})
	mapping, i := entry(m.root, remove.Path)
	if err != nil || mapping == nil {
		return false
	}
	t := editor{text: m.doc.text, lines: m.doc.starts()}
	key := mapping.Content[i]
	from := t.offset(key)
	if key.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		from++
	}
	c, ok := t.splice(from, from+len(key.Value), add.Path[len(add.Path)-1].Key)
	if !ok {
		return false
	}
	again := *m
	text, written := write(m.doc.text, []change{c})
	if !written || !again.read(text) || !reflect.DeepEqual(again.object, want) {
		return false
	}
	*m = again
	return true
}

// item is the index of the List's item that a path leads into, or -1 for no item.
func item(p tree.Path) int {
	if len(p) > 1 && p[0].Key == "items" {
		return p[1].Index
	}
	return -1
}

// applyBatch writes edits together, or one by one if that fails.
func (m *fixer) applyBatch(batch []tree.Edit) (applied, left int) {
	if m.work += len(m.doc.text); m.work > maxFixWorkBytes || m.ctx.Err() != nil {
		return 0, len(batch)
	}
	t := editor{text: m.doc.text, lines: m.doc.starts()}
	want := m.object
	var changes []change
	var effective []tree.Edit
	ok := true
	for _, e := range batch {
		next, patch, err := tree.Apply(want, []tree.Edit{e})
		if err != nil {
			left++
			continue
		}
		if want = next; len(patch) == 0 {
			continue
		}
		c, can := t.applyText(m.root, patch[0])
		ok = ok && can
		changes, effective = append(changes, c), append(effective, e)
	}
	if len(effective) == 0 {
		return 0, left
	}
	if ok {
		again := *m
		text, written := write(m.doc.text, changes)
		if written && again.read(text) && reflect.DeepEqual(again.object, want) {
			*m = again
			return len(effective), left
		}
	}
	if len(effective) == 1 {
		return 0, left + 1
	}
	for _, e := range effective {
		n, l := m.applyBatch([]tree.Edit{e})
		applied, left = applied+n, left+l
	}
	return applied, left
}

// results returns the findings of the document in its current state, with
// suppressions, without findings of disabled rules.
func (m *fixer) results() []Result {
	var out []Result
	for _, f := range m.judge.Check(m.parsed(), m.facts) {
		if severity, ok := m.rules[f.Code]; !ok || severity != policy.None {
			out = append(out, Result{Finding: f})
		}
	}
	return suppressions(&m.doc).apply(m.root, m.object, out)
}

// edits collects the edits of the findings that are not suppressed, removals
// first. Placement decides whether to set spec.os.name (WIN419).
func (m *fixer) edits() []tree.Edit {
	var out []tree.Edit
	seen := map[string]bool{}
	objects := m.parsed()
	for _, r := range m.results() {
		if r.Suppressed != "" || r.Code == "WIN419" {
			continue
		}
		for _, e := range r.Edits {
			if e.Op == tree.Add && skipped(m.object, e.Path) || !mayEdit(objects, e) {
				continue
			}
			if key := string(e.Op) + e.Path.Pointer(); !seen[key] {
				seen[key] = true
				out = append(out, e)
			}
		}
	}
	order := []tree.Op{tree.Remove, tree.Replace, tree.Add}
	slices.SortStableFunc(out, func(a, b tree.Edit) int {
		return slices.Index(order, a.Op) - slices.Index(order, b.Op)
	})
	return out
}

// skipped reports whether an object on the way to a field opts out of placement.
func skipped(object map[string]any, path tree.Path) bool {
	v := tree.Root(object)
	for i := range path {
		if v.Find("metadata", "annotations", place.SkipAnnotation).Str() == "true" {
			return true
		}
		v = v.At(path[i : i+1])
	}
	return false
}

// placement returns the edits that the pods of the document need to land on the
// right nodes, except suppressed ones. It does not set spec.os.name in a pod
// that keeps a field which the API server would then refuse.
func (m *fixer) placement() []tree.Edit {
	var kept []Result
	for _, r := range m.results() {
		if r.Suppressed != "" {
			kept = append(kept, r)
		}
	}
	var out []tree.Edit
	objects := m.parsed()
	for _, p := range place.Pods(m.judge, objects, m.facts) {
		stays := false
		for _, e := range p.Edits {
			at := e.Path.String()
			if !mayWrite(objects, p, e) {
				continue
			}
			suppressed := slices.ContainsFunc(kept, func(r Result) bool {
				return at == r.Field || strings.HasPrefix(at, r.Field+"[")
			})
			stays = stays || suppressed && e.Op == tree.Remove
			if !suppressed && (!stays || !strings.HasSuffix(at, "spec.os.name")) {
				out = append(out, e)
			}
		}
	}
	return out
}

// FixAll is like fixText, for a stream. rules is as in Config.
func FixAll(
	ctx context.Context, name string, r io.Reader, facts policy.Facts, rules map[string]policy.Severity,
) (Fixed, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	text, err := io.ReadAll(io.LimitReader(wait(ctx, r), maxFixBytes+1))
	if err != nil {
		return Fixed{}, fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > maxFixBytes {
		return Fixed{}, fmt.Errorf("fix %s: larger than %d MiB", name, maxFixBytes>>20)
	}
	return fixText(ctx, name, text, facts, rules)
}

const (
	// maxFixBytes bounds the size of a file, because files are fixed in memory.
	maxFixBytes = 64 << 20
	// maxFixWorkBytes bounds how many bytes of a document are parsed again for
	// its edits: about three seconds of work. A List of 500 pods needs a third
	// of it.
	maxFixWorkBytes = 16 << 20
)
