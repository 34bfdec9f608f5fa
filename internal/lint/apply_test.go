// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/mullion-k8s/mullion/internal/policy"
)

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

// randomEdit returns an edit of a path that the tree has, mostly.
func randomEdit(r *rand.Rand, tree any) policy.Edit {
	e := policy.Edit{Op: []policy.EditOp{policy.Add, policy.Remove, policy.Replace}[r.IntN(3)]}
	if e.Op != policy.Remove {
		e.Value = "new"
	}
	for len(e.Path) == 0 || r.IntN(4) > 0 {
		if l, ok := tree.([]any); ok {
			i := r.IntN(len(l) + 1)
			e.Path = append(e.Path, policy.Step{Index: i})
			if tree = nil; i < len(l) {
				tree = l[i]
			}
			continue
		}
		key := []string{"a", "b", "c"}[r.IntN(3)]
		e.Path = append(e.Path, policy.Step{Key: key, Index: -1})
		m, _ := tree.(map[string]any)
		tree = m[key]
	}
	return e
}

// TestAppliersDisagree compares the two programs that apply edits to a tree:
// applyTree of this package and policy.Apply. It lists all that they disagree
// about.
func TestAppliersDisagree(t *testing.T) {
	seen := map[string]int{}
	r := rand.New(rand.NewPCG(1, 2))
	for range 50_000 {
		tree := map[string]any{"a": randomTree(r, 3), "b": randomTree(r, 2)}
		e := randomEdit(r, tree)
		here, _ := applyTree(clone(tree), e)
		there, err := policy.Apply(tree, []policy.Edit{e})
		if err != nil {
			there = tree
		}
		if reflect.DeepEqual(here, any(there)) {
			continue
		}
		last := e.Path[len(e.Path)-1]
		switch null := valueAt(tree, e.Path) == nil; {
		case last.Index >= 0:
			seen["an item of a list: only policy.Apply changes it"]++
		case null:
			seen["a null: only applyTree removes or replaces it"]++
		case e.Op == policy.Remove:
			seen["the last entry of a map: applyTree removes the map too"]++
		default:
			t.Fatalf("%s %s of %v: applyTree %v, policy.Apply %v (%v)", e.Op, e.Path, tree, here, there, err)
		}
	}
	if len(seen) != 3 {
		t.Errorf("they disagree about %v", seen)
	}
	t.Log(seen)
}

func valueAt(at any, path policy.Path) any {
	for _, s := range path {
		if s.Index < 0 {
			m, _ := at.(map[string]any)
			at = m[s.Key]
		} else if l, _ := at.([]any); s.Index < len(l) {
			at = l[s.Index]
		} else {
			return nil
		}
	}
	return at
}
