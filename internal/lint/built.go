// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"cmp"
	"context"
	"os"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// Build holds the objects that a program such as kustomize makes of several files.
type Build struct {
	File    string // that describes it: kustomization.yaml
	Objects []Built
	Patches []string // files that may have changed the objects
	Problem string   // why there are no objects
	Hint    string   // remedy
}

// Built is an object that comes from a file, and may have been changed since.
type Built struct {
	Object map[string]any
	File   string // "" if it is not known
	// It is generated of files that are not all here: it has more keys in a cluster.
	Partial bool
}

// builder judges built objects, and finds the places of findings in the files
// that the objects come from.
type builder struct {
	ctx   context.Context // of the run
	facts *policy.Facts
	judge *judge
	files map[string][]source // by path
	seen  map[spot]bool
}

// spot identifies a finding: objects of several overlays share their bases.
type spot struct {
	file, code, message string
	line, column        int
}

// source is one document of a file.
type source struct {
	doc     *document
	root    *yaml.Node
	object  any
	ignored *ignored
}

// build judges the objects of a build.
func (b *builder) build(made Build) judged {
	var out judged
	if made.Problem != "" {
		d := document{name: made.File, line: 1}
		p := newProblem(1, 1, "WIN909", made.Problem, made.Hint)
		out.results = append(out.results, p.result(&d))
		return out
	}
	facts := *b.facts
	facts.Location = made.place()
	for _, o := range made.Objects {
		if b.ctx.Err() != nil {
			return out
		}
		parsed := policy.Parse(o.Object)
		// Objects without the required fields of a workload are patches of one in the cluster.
		patches := parsed.DropPatches(false)
		out.objects += parsed.Len()
		out.unseen = append(out.unseen, parsed.Unseen()...)
		findings := append(b.judge.written(parsed, facts), b.judge.patches(patches)...)
		var own []source
		if o.File != "" && len(findings) > 0 {
			own = b.identify(o.Object, b.read(o.File))
		}
		var found []Result
		for _, f := range findings {
			found = append(found, b.place(made, o, own, f))
		}
		for _, r := range suppressByAnnotation(o.Object, found) {
			at := spot{r.File, r.Code, r.Message, r.Line, r.Column}
			if !b.seen[at] {
				b.seen[at] = true
				out.results = append(out.results, r)
			}
		}
	}
	slices.SortStableFunc(out.results, func(x, y Result) int {
		return cmp.Or(
			cmp.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line), cmp.Compare(x.Column, y.Column),
			cmp.Compare(x.Code, y.Code), cmp.Compare(x.Field, y.Field))
	})
	return out
}

// place returns a finding at the place that decides it: where a patch or, else,
// the object's own file has the field, or the closest field around it.
func (b *builder) place(made Build, o Built, own []source, f policy.Finding) Result {
	r := Result{Finding: f, File: made.File, Object: objectName(o.Object, f.Scope), Line: 1, Column: 1}
	r.place = namedField(o.Object, f)
	var best source
	var path tree.Path
	for _, s := range own {
		best, path = s, follow(o.Object, s.root, f.Path)
	}
	written := false // by a JSON patch
	for _, file := range made.Patches {
		for _, s := range b.changes(o.Object, b.read(file)) {
			if at := s.operation(o.Object, f.Path); at != nil {
				best, path, written = s, at, true
			} else if at := follow(o.Object, s.root, f.Path); !written &&
				(len(at) > len(path) || len(at) == len(f.Path) && len(at) > 0) {
				best, path = s, at
			}
		}
	}
	if best.doc == nil {
		if o.File != "" {
			r.File = o.File
		}
		return r
	}
	at := locate(best.root, path)
	r.File, r.Line, r.Column, r.node = best.doc.name, at.Line, at.Column, at
	r.Path = path
	found := []Result{r}
	if len(best.ignored.comments) > 0 {
		best.ignored.byComment(best.root, found)
	}
	found[0].Path = f.Path
	return best.doc.finish(found)[0]
}

// read returns the readable documents of a file.
func (b *builder) read(file string) []source {
	if known, ok := b.files[file]; ok {
		return known
	}
	var out []source
	r, err := os.Open(file)
	if err == nil {
		err = split(b.ctx, file, r, func(d document) error {
			if d.problem != nil {
				return nil
			}
			ignored := suppressions(&d)
			for _, p := range parse(b.ctx, &d) {
				if p.problem == nil {
					object, _ := convert(p.node)
					out = append(out, source{doc: &d, root: p.node, object: object, ignored: ignored})
				}
			}
			return nil
		})
		_ = r.Close() // only read
	}
	if err != nil {
		out = nil // kustomize has read it: it is gone by now
	}
	b.files[file] = out
	return out
}

// identify returns the document from which an object comes. kustomize may have
// added a prefix or a suffix to its name.
func (b *builder) identify(object map[string]any, from []source) []source {
	same := slices.DeleteFunc(slices.Clone(from), func(s source) bool { return !akin(object, s.object) })
	if len(same) < 2 {
		return same
	}
	name := func(s source) int { return len(nameOf(s.object)) }
	return []source{slices.MaxFunc(same, func(x, y source) int { return name(x) - name(y) })}
}

// changes returns the documents of patches that apply to an object.
func (b *builder) changes(object map[string]any, from []source) []source {
	return slices.DeleteFunc(slices.Clone(from), func(s source) bool {
		_, operations := s.object.([]any)
		return !operations && !akin(object, s.object)
	})
}

// akin reports whether two objects have the same kind, and the first's name
// contains the second's.
func akin(built map[string]any, from any) bool {
	other, _ := from.(map[string]any)
	return other != nil && built["kind"] == other["kind"] && strings.Contains(nameOf(built), nameOf(other))
}

func nameOf(object any) string {
	o, _ := object.(map[string]any)
	return tree.Root(o).Find("metadata", "name").Str()
}

// operation returns the path to the operation of a JSON patch that wrote a field
// of an object, or nil if there is no such operation.
func (s source) operation(object map[string]any, path tree.Path) tree.Path {
	operations, _ := s.object.([]any)
	for i, o := range operations {
		operation, _ := o.(map[string]any)
		op := tree.Root(operation)
		pointer := op.Find("path").Str()
		for n := len(path); n > 0; n-- {
			value := op.Find("value").Raw()
			if path[:n].Pointer() == pointer && value != nil && same(tree.Root(object).At(path[:n]).Raw(), value) {
				return tree.Path{{Index: i}, {Key: "path", Index: -1}}
			}
		}
	}
	return nil
}

// same compares values of which one was read from JSON, the other from YAML.
func same(a, b any) bool {
	x, xok := tree.Root(map[string]any{"": a}).Get("").Int()
	y, yok := tree.Root(map[string]any{"": b}).Get("").Int()
	return xok && yok && x == y || reflect.DeepEqual(a, b)
}

// follow returns the part of a path of an object that a document has. It finds
// the items of lists by their names, because patches change the order.
func follow(object map[string]any, root *yaml.Node, path tree.Path) tree.Path {
	var out tree.Path
	at := root
	for i, s := range path {
		if s.Index >= 0 {
			if name := tree.Root(object).At(path[:i+1]).Find("name").Str(); name != "" {
				s.Index = named(at, name)
			}
		}
		if s.Index < 0 && s.Key == "" {
			break
		}
		_, v := child(at, s, 0)
		if v == nil {
			break
		}
		out, at = append(out, s), v
	}
	return out
}

// named returns the index of the item of a list with a name, or -1 if there is no
// such item.
func named(list *yaml.Node, name string) int {
	for list.Kind == yaml.AliasNode {
		list = list.Alias
	}
	for i := range list.Content {
		if _, v := child(list.Content[i], tree.Step{Key: "name", Index: -1}, 0); v != nil && v.Value == name {
			return i
		}
	}
	return -1
}
