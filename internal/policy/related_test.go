// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"slices"
	"testing"
)

// TestRelatedGrows: what grows from a Related changes nothing that its readers see.
func TestRelatedGrows(t *testing.T) {
	named := func(name string) []Workload {
		return []Workload{{
			Kind:   "Deployment",
			Name:   name,
			Labels: []Label{{"app", "w"}, {"name", name}},
			Claims: []string{"data"},
		}}
	}
	first := Related{}.With(named("a"), []Claim{{Name: "data", Volume: "v"}})
	second := first.With(named("b"), []Claim{{Name: "more", Volume: "v"}})

	for _, c := range []struct {
		related           Related
		workloads, claims int
		b                 bool
	}{
		{related: Related{}},
		{related: first, workloads: 1, claims: 1},
		{related: second, workloads: 2, claims: 2, b: true},
	} {
		if got := slices.Collect(c.related.find(key{what: claimOf, name: "data"})); len(got) != c.workloads {
			t.Errorf("workloads that mount data: %v; want %d", got, c.workloads)
		}
		if got := slices.Collect(c.related.findClaims(key{what: volumeOf, name: "v"})); len(got) != c.claims {
			t.Errorf("claims of volume v: %v; want %d", got, c.claims)
		}
		got := slices.Collect(c.related.Selected("any", map[string]string{"name": "b", "app": "w"}))
		if ok := len(got) == 1 && got[0].Name == "b"; ok != c.b || len(got) > 1 {
			t.Errorf("selected %v; want %t", got, c.b)
		}
		if got := slices.Collect(c.related.Selected("any", nil)); len(got) > 0 {
			t.Errorf("an empty selector picks %v", got)
		}
	}
}
