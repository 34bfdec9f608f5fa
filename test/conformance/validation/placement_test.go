// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package validation

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// place applies what placement writes, as the API server applies the patch.
func place(t *testing.T, object map[string]any, facts policy.Facts) (map[string]any, []policy.Placement) {
	t.Helper()
	facts.Kubernetes = version
	placements := policy.New(facts).Place(object, facts)
	for _, p := range placements {
		ops, err := policy.Patch(object, p.Edits)
		if err != nil {
			t.Fatal(err)
		}
		if len(ops) == 0 {
			continue
		}
		text, err := json.Marshal(ops)
		if err != nil {
			t.Fatal(err)
		}
		patch, err := jsonpatch.DecodePatch(text)
		if err != nil {
			t.Fatal(err)
		}
		before, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		after, err := patch.Apply(before)
		if err != nil {
			t.Fatalf("apply %s: %v", text, err)
		}
		object = nil
		if err := json.Unmarshal(after, &object); err != nil {
			t.Fatal(err)
		}
	}
	return object, placements
}

// texts are the errors as text, in order.
func texts(list field.ErrorList) []string {
	var out []string
	for _, e := range list {
		out = append(out, e.Error())
	}
	slices.Sort(out)
	return out
}

// TestPlacedIsValid: what placement writes never makes the API server refuse a
// pod, or a template, that it takes without; whatever field the pod has. Where
// a field stays that is refused on Windows, the pod does not declare itself.
func TestPlacedIsValid(t *testing.T) {
	facts := nodes(17763, 20348, 26100)
	for i := range facts.Nodes {
		facts.Nodes[i].Taints = []policy.Taint{{Key: "os", Value: "windows", Effect: "NoSchedule"}}
	}
	base := withOS(tweak(t, "spec: {nodeSelector: null}"), "")
	placed, kept := 0, 0
	check := func(name string, object map[string]any) {
		t.Helper()
		before := texts(upstream(object))
		after, placements := place(t, object, facts)
		for _, e := range texts(upstream(after)) {
			if len(before) == 0 {
				t.Errorf("%s: placement makes upstream say %s\nplacements %+v", name, e, placements)
			}
		}
		if len(placements) > 0 && len(placements[0].Edits) > 0 {
			placed++
		}
		if text, err := json.Marshal(after); err != nil || !strings.Contains(string(text), `"os":{"name":"windows"}`) {
			kept++
		}
	}
	for _, m := range mutations() {
		check(m.String(), apply(base, m))
	}
	for _, f := range refused() {
		pod := tweak(t, f.object)
		if f.unset == policy.None {
			continue
		}
		for path, w := range workloads(withOS(pod, "")) {
			check(f.id+" "+path, w)
		}
	}
	t.Logf("%d objects placed; %d do not declare themselves, since a field stays that would be refused", placed, kept)
}
