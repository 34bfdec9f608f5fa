// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"slices"
	"testing"

	"github.com/mullion-k8s/mullion/internal/policy/policytest"
)

// TestKinds gives an object of every kind of the table a pod where the table
// says, and looks for it.
func TestKinds(t *testing.T) {
	for kind, known := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			version := "v1"
			if kind.Group != "" {
				version = kind.Group + "/v1"
			}
			var value any = map[string]any{
				"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}},
			}
			for _, key := range slices.Backward(known.template) {
				value = map[string]any{key: value}
			}
			object, ok := value.(map[string]any)
			if !ok {
				t.Fatal("no object")
			}
			object["apiVersion"], object["kind"] = version, kind.Name
			p := Parse(object)
			pods, uneditable, unseen := len(Pods(p.items)), len(p.Uneditable()), p.Unseen()
			if known.unknown {
				if pods != 0 || len(unseen) != 1 || unseen[0] != kind {
					t.Errorf("%d pods, unseen %v, want it unseen", pods, unseen)
				}
				return
			}
			if pods != 1 || uneditable == 0 != known.fixed || len(unseen) > 0 {
				t.Errorf("%d pods, %d uneditable, unseen %v, want one pod, fixed %v",
					pods, uneditable, unseen, known.fixed)
			}
		})
	}
}

// TestOtherKinds: of kinds that are not in the table, those that have containers
// in no pod template are noted, and no others.
func TestOtherKinds(t *testing.T) {
	for _, c := range []struct {
		name, object string
		pods, unseen int
	}{
		{"pod template", `spec: {jobs: [{template: {spec: {containers: [{image: i}]}}}]}`, 1, 0},
		{"container", `spec: {template: {container: {image: i}}}`, 0, 1},
		{"script", `spec: {parts: [{script: {image: i}}]}`, 0, 1},
		{"steps", `spec: {steps: [{name: a}, {image: i}]}`, 0, 1},
		{"sidecars", `spec: {sidecars: [{image: i}]}`, 0, 1},
		{"containers of another shape", `spec: {pods: {containers: [{image: i}]}}`, 0, 1},
		{"steps without an image", `spec: {steps: [{uses: checkout}], container: {name: c}}`, 0, 0},
		{"containers by name", `spec: {containers: {c: {image: i}}}`, 0, 0},
		{"an image only", `spec: {image: i}`, 0, 0},
		{"neither", `spec: {replicas: 2, container: name}`, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Parse(policytest.Decode(t, "apiVersion: example.com/v1\nkind: Thing\n"+c.object))
			if got, unseen := len(Pods(p.items)), len(p.Unseen()); got != c.pods || unseen != c.unseen {
				t.Errorf("%d pods, %d unseen, want %d and %d", got, unseen, c.pods, c.unseen)
			}
		})
	}
	crd := `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {steps: [{image: i}]}}`
	if unseen := Parse(policytest.Decode(t, crd)).Unseen(); len(unseen) > 0 {
		t.Errorf("unseen: %v", unseen)
	}
}
