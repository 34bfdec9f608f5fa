// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package chart

import (
	"slices"
	"testing"
)

func TestSplit(t *testing.T) {
	got := split("c", "---\n# Source: app/templates/a.yaml\na: 1\n---\n# Source: app/templates/a.yaml\na: 2\n"+
		"---\n# Source: app/charts/db/templates/b.yaml\nb: 1\n")
	want := []string{
		"c/templates/a.yaml ---\n# Source: app/templates/a.yaml\na: 1\n---\n# Source: app/templates/a.yaml\na: 2\n",
		"c/charts/db/templates/b.yaml ---\n# Source: app/charts/db/templates/b.yaml\nb: 1\n\n",
	}
	var texts []string
	for _, r := range got {
		texts = append(texts, r.File+" "+string(r.Text))
	}
	if !slices.Equal(texts, want) {
		t.Errorf("got\n%q, want\n%q", texts, want)
	}
}
