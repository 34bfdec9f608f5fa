// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/policy/policytest"
)

func keys(k ...any) Path {
	var p Path
	for _, e := range k {
		if i, ok := e.(int); ok {
			p = append(p, Step{"", i})
		} else {
			p = append(p, Step{e.(string), -1})
		}
	}
	return p
}

func TestPatch(t *testing.T) {
	for _, tt := range []struct {
		name, object string
		edits        []Edit
		ops, after   string
	}{
		{
			"two labels below a map that is not there", `{spec: {}}`,
			[]Edit{{Add, keys("spec", "nodeSelector", "kubernetes.io/os"), "windows"}, {Add, keys("spec", "nodeSelector", "a~b"), "c"}},
			`[{"op":"add","path":"/spec/nodeSelector","value":{"kubernetes.io/os":"windows"}},{"op":"add","path":"/spec/nodeSelector/a~0b","value":"c"}]`,
			`{spec: {nodeSelector: {kubernetes.io/os: windows, a~b: c}}}`,
		},
		{
			"a null is not there", `{spec: {os: null}}`, []Edit{{Add, keys("spec", "os", "name"), "windows"}},
			`[{"op":"add","path":"/spec/os","value":{"name":"windows"}}]`, `{spec: {os: {name: windows}}}`,
		},
		{
			"several levels", `{}`, []Edit{{Add, keys("a", "b", "c"), []any{1.0}}, {Add, keys("a", "b", "c", 1), 2.0}},
			`[{"op":"add","path":"/a","value":{"b":{"c":[1]}}},{"op":"add","path":"/a/b/c/1","value":2}]`, `{a: {b: {c: [1, 2]}}}`,
		},
		{
			"lists", `{l: [{k: 1}, null, 3]}`, []Edit{{Add, keys("l", 0, "m"), "x"}, {Add, keys("l", 1), "new"}, {Replace, keys("l", 3), 4.0}, {Remove, keys("l", 0), nil}},
			`[{"op":"add","path":"/l/0/m","value":"x"},{"op":"add","path":"/l/1","value":"new"},{"op":"replace","path":"/l/3","value":4},{"op":"remove","path":"/l/0"}]`, `{l: [new, null, 4]}`,
		},
		{"remove what is not there", `{a: 1}`, []Edit{{Remove, keys("b"), nil}, {Remove, keys("b", "c"), nil}, {Remove, keys("l", 0), nil}}, `null`, `{a: 1}`},
		{"add what is there", `{a: 1}`, []Edit{{Add, keys("a"), false}}, `[{"op":"add","path":"/a","value":false}]`, `{a: false}`},
		{"a null as value", `{a: 1}`, []Edit{{Replace, keys("a"), nil}}, `[{"op":"replace","path":"/a","value":null}]`, `{a: null}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			object := policytest.Decode(t, tt.object)
			ops, err := Patch(object, tt.edits)
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
			want := plain(t, policytest.Decode(t, tt.after))
			after, err := Apply(object, tt.edits)
			if err != nil || !reflect.DeepEqual(plain(t, after), want) {
				t.Errorf("Apply: %v, %v; want %v", after, err, want)
			}
			if after := apply(t, object, ops); !reflect.DeepEqual(after, want) {
				t.Errorf("the patch applied: %v, want %v", after, want)
			}
		})
	}
}

func TestPatchErrors(t *testing.T) {
	for _, tt := range []struct {
		object string
		edit   Edit
		want   string
	}{
		{`{}`, Edit{Add, nil, 1}, "the whole object"},
		{`{spec: text}`, Edit{Add, keys("spec", "os"), 1}, "patch spec.os: spec is string, not a map or a list"},
		{`{spec: []}`, Edit{Add, keys("spec", "os", "name"), 1}, "spec is a list, not a map"},
		{`{spec: {}}`, Edit{Add, keys("spec", 0), 1}, "spec is a map, not a list"},
		{`{l: [1]}`, Edit{Add, keys("l", 2), 1}, "index 2 of 1 elements"},
		{`{l: [1]}`, Edit{Add, keys("l", 1, "a"), 1}, "there is no l[1]"},
		{`{l: [1]}`, Edit{Replace, keys("l", 1), 1}, "there is nothing to replace"},
		{`{}`, Edit{Add, keys("l", 0), 1}, "there is no list l"},
		{`{}`, Edit{Replace, keys("a"), 1}, "there is nothing to replace"},
	} {
		_, err := Patch(policytest.Decode(t, tt.object), []Edit{tt.edit})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, %+v: %v, want %q", tt.object, tt.edit, err, tt.want)
		}
	}
}
