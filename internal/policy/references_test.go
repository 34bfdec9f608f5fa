// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReferences(t *testing.T) {
	object := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment",
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"serviceAccountName": "sa", "runtimeClassName": "rc",
			"imagePullSecrets": []any{map[string]any{"name": "s"}, map[string]any{}, "rubbish"},
			"initContainers":   []any{map[string]any{"image": "a"}},
			"containers":       []any{map[string]any{"image": "b"}, map[string]any{"image": "a"}, map[string]any{}, 7},
		}}}}
	want := []References{{Images: []string{"a", "b"}, PullSecrets: []string{"s"}, ServiceAccount: "sa",
		RuntimeClass: "rc"}}
	if d := cmp.Diff(want, Parse(object).References()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for _, o := range []map[string]any{nil, {}, {"kind": "Service", "apiVersion": "v1"},
		{"kind": "Pod", "apiVersion": "v1"}} {
		if got := Parse(o).References(); len(got) != 0 {
			t.Errorf("%v: %+v", o, got)
		}
	}
}
