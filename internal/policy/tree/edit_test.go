// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package tree

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/policy/policytest"
)

// at returns a path of keys and indexes.
func at(k ...any) Path {
	var p Path
	for _, e := range k {
		if i, ok := e.(int); ok {
			p = append(p, Step{Index: i})
		} else {
			p = append(p, Step{e.(string), -1})
		}
	}
	return p
}

func TestApply(t *testing.T) {
	for _, tt := range []struct {
		name, object string
		edits        []Edit
		ops, after   string
	}{
		{
			"two labels below a map that is not there", `{spec: {}}`,
			[]Edit{{Add, at("spec", "nodeSelector", "kubernetes.io/os"), "windows"},
				{Add, at("spec", "nodeSelector", "a~b"), "c"}},
			`[{"op":"add","path":"/spec/nodeSelector","value":{"kubernetes.io/os":"windows"}},{"op":"add",` +
				`"path":"/spec/nodeSelector/a~0b","value":"c"}]`,
			`{spec: {nodeSelector: {kubernetes.io/os: windows, a~b: c}}}`,
		},
		{
			"a null is not there", `{spec: {os: null}}`, []Edit{{Add, at("spec", "os", "name"), "windows"}},
			`[{"op":"add","path":"/spec/os","value":{"name":"windows"}}]`, `{spec: {os: {name: windows}}}`,
		},
		{
			"several levels", `{}`, []Edit{{Add, at("a", "b", "c"), []any{1.0}}, {Add, at("a", "b", "c", 1), 2.0}},
			`[{"op":"add","path":"/a","value":{"b":{"c":[1]}}},{"op":"add","path":"/a/b/c/1","value":2}]`,
			`{a: {b: {c: [1, 2]}}}`,
		},
		{
			"lists", `{l: [{k: 1}, null, 3]}`, []Edit{{Add, at("l", 0, "m"), "x"}, {Add, at("l", 1), "new"},
				{Replace, at("l", 3), 4.0}, {Remove, at("l", 0), nil}},
			`[{"op":"add","path":"/l/0/m","value":"x"},{"op":"add","path":"/l/1","value":"new"},{"op":"replace",` +
				`"path":"/l/3","value":4},{"op":"remove","path":"/l/0"}]`, `{l: [new, null, 4]}`,
		},
		{
			"remove what is not there", `{a: 1}`,
			[]Edit{{Remove, at("b"), nil}, {Remove, at("b", "c"), nil}, {Remove, at("l", 0), nil}},
			`null`, `{a: 1}`,
		},
		{
			"remove the last entries", `{a: {b: {c: 1, d: 2}}, e: 3}`,
			[]Edit{{Remove, at("a", "b", "c"), nil}, {Remove, at("a", "b", "d"), nil}},
			`[{"op":"remove","path":"/a/b/c"},{"op":"remove","path":"/a"}]`, `{e: 3}`,
		},
		{
			"remove the last entry of an item", `{l: [{a: {b: 1}}]}`,
			[]Edit{{Remove, at("l", 0, "a", "b"), nil}},
			`[{"op":"remove","path":"/l/0/a"}]`, `{l: [{}]}`,
		},
		{
			"remove the last item", `{l: [1]}`,
			[]Edit{{Remove, at("l", 0), nil}},
			`[{"op":"remove","path":"/l/0"}]`, `{l: []}`,
		},
		{
			"remove all", `{a: {b: 1}}`,
			[]Edit{{Remove, at("a", "b"), nil}},
			`[{"op":"remove","path":"/a"}]`, `{}`,
		},
		{
			"a map that was empty before stays", `{a: {b: 1, c: {}}}`,
			[]Edit{{Remove, at("a", "b"), nil}},
			`[{"op":"remove","path":"/a/b"}]`, `{a: {c: {}}}`,
		},
		{
			"set what is equal", `{a: {b: [1]}}`,
			[]Edit{{Add, at("a", "b"), []any{1.0}}, {Replace, at("a", "b"), []any{1.0}}},
			`null`, `{a: {b: [1]}}`,
		},
		{
			"insert what is equal", `{l: [1]}`,
			[]Edit{{Add, at("l", 0), 1.0}},
			`[{"op":"add","path":"/l/0","value":1}]`, `{l: [1, 1]}`,
		},
		{
			"add what is there", `{a: 1}`,
			[]Edit{{Add, at("a"), false}},
			`[{"op":"add","path":"/a","value":false}]`, `{a: false}`,
		},
		{
			"a null as value", `{a: 1}`,
			[]Edit{{Replace, at("a"), nil}},
			`[{"op":"replace","path":"/a","value":null}]`, `{a: null}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			object := policytest.Decode(t, tt.object)
			after, ops, err := Apply(object, tt.edits)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(ops)
			if err != nil || string(got) != tt.ops {
				t.Errorf("patch (%v)\n%s\nwant\n%s", err, got, tt.ops)
			}
			if !reflect.DeepEqual(object, policytest.Decode(t, tt.object)) {
				t.Errorf("the object was changed: %v", object)
			}
			want := policytest.Plain(t, policytest.Decode(t, tt.after))
			if !reflect.DeepEqual(policytest.Plain(t, after), want) {
				t.Errorf("edited: %v, want %v", after, want)
			}
			if after := policytest.Patch(t, object, ops); !reflect.DeepEqual(after, want) {
				t.Errorf("patched: %v, want %v", after, want)
			}
		})
	}
}

func TestApplyErrors(t *testing.T) {
	for _, tt := range []struct {
		object string
		edit   Edit
		want   string
	}{
		{`{}`, Edit{Add, nil, 1}, "the whole object"},
		{`{spec: text}`, Edit{Add, at("spec", "os"), 1}, "add spec.os: spec is string, not a map or a list"},
		{`{spec: []}`, Edit{Add, at("spec", "os", "name"), 1}, "spec is a list, not a map"},
		{`{spec: {}}`, Edit{Add, at("spec", 0), 1}, "spec is a map, not a list"},
		{`{l: [1]}`, Edit{Add, at("l", 2), 1}, "index 2 of 1 elements"},
		{`{l: [1]}`, Edit{Add, at("l", 1, "a"), 1}, "there is no l[1]"},
		{`{l: [1]}`, Edit{Replace, at("l", 1), 1}, "there is nothing to replace"},
		{`{}`, Edit{Add, at("l", 0), 1}, "there is no list l"},
		{`{}`, Edit{Replace, at("a"), 1}, "there is nothing to replace"},
	} {
		_, _, err := Apply(policytest.Decode(t, tt.object), []Edit{tt.edit})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, %+v: %v, want %q", tt.object, tt.edit, err, tt.want)
		}
	}
}

// TestApplyRandom makes random edits of random objects: the patch makes the
// same of the object as Apply does, the object stays as it is, a second
// application of what sets or removes a key changes nothing, and a removal
// leaves no map empty.
func TestApplyRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	done := map[Op]int{}
	for range 20_000 {
		object := map[string]any{"a": randomTree(r, 3), "b": randomTree(r, 2)}
		before := policytest.Plain(t, object)
		e := randomEdit(r, object)
		after, patch, err := Apply(object, []Edit{e})
		if !reflect.DeepEqual(object, before) {
			t.Fatalf("%s %s changed the object: %v, was %v", e.Op, e.Path, object, before)
		}
		if err != nil {
			continue
		}
		done[e.Op]++
		if len(patch) == 0 != reflect.DeepEqual(after, object) {
			t.Fatalf("%s %s of %v: the patch %v, and the object %v", e.Op, e.Path, object, patch, after)
		}
		if patched := policytest.Patch(t, object, patch); !reflect.DeepEqual(patched, after) {
			t.Fatalf("%s %s of %v: Apply %v, the patch %v", e.Op, e.Path, object, after, patched)
		}
		if e.Path[len(e.Path)-1].Index >= 0 {
			continue
		}
		if _, again, err := Apply(after, []Edit{e}); err != nil || len(again) > 0 {
			t.Fatalf("%s %s of %v again: %v, %v", e.Op, e.Path, after, again, err)
		}
		up := e.Path[:len(e.Path)-1]
		if e.Op == Remove && len(patch) > 0 && len(up) > 0 && up[len(up)-1].Index < 0 {
			if v := Root(after).At(up); v.Set() && v.Len() == 0 {
				t.Fatalf("%s %s of %v leaves an empty map: %v", e.Op, e.Path, object, after)
			}
		}
	}
	for _, op := range []Op{Add, Remove, Replace} {
		if done[op] < 1000 {
			t.Errorf("only %d edits %s something", done[op], op)
		}
	}
}

// randomTree returns a tree as a decoder makes it.
func randomTree(r *rand.Rand, depth int) any {
	switch n := r.IntN(6); {
	case depth > 0 && n < 3:
		m := map[string]any{}
		for _, k := range []string{"a", "b", "c"}[:r.IntN(4)] {
			m[k] = randomTree(r, depth-1)
		}
		return m
	case depth > 0 && n == 3:
		l := make([]any, r.IntN(3))
		for i := range l {
			l[i] = randomTree(r, depth-1)
		}
		return l
	case n == 4:
		return nil
	}
	return "x"
}

// randomEdit returns an edit; most of them are of a path that the object has.
func randomEdit(r *rand.Rand, object map[string]any) Edit {
	e := Edit{Op: []Op{Add, Remove, Replace}[r.IntN(3)]}
	if e.Op != Remove {
		e.Value = "new"
	}
	for v := Root(object); len(e.Path) == 0 || r.IntN(4) > 0; v = Root(object).At(e.Path) {
		if l, ok := v.Raw().([]any); ok {
			e.Path = append(e.Path, Step{Index: r.IntN(len(l) + 1)})
		} else {
			e.Path = append(e.Path, Step{Key: []string{"a", "b", "c"}[r.IntN(3)], Index: -1})
		}
	}
	return e
}
