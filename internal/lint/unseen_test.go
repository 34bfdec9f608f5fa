// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"slices"
	"testing"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// TestUnseenNotes: a kind is text from a file, and must not reach the terminal as
// it is.
func TestUnseenNotes(t *testing.T) {
	var u Unseen
	u.count(nil)
	if notes := u.Notes(); len(notes) > 0 {
		t.Errorf("nothing counted: %q", notes)
	}
	u.count([]policy.Kind{{Group: "b", Name: "K"}, {Group: "a", Name: "L\x1b\n"}})
	u.count([]policy.Kind{{Group: "b", Name: "K"}})
	want := []string{
		"1 object of kind L\uFFFD\uFFFD (a) was not looked at: lint does not support pod templates of this kind",
		"2 objects of kind K (b) were not looked at: lint does not support pod templates of this kind",
	}
	if notes := u.Notes(); !slices.Equal(notes, want) {
		t.Errorf("notes %q, want %q", notes, want)
	}
}
