// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// Unseen counts the objects of each kind that have containers which the rules do
// not see.
type Unseen map[policy.Kind]int

func (u *Unseen) count(kinds []policy.Kind) {
	if *u == nil && len(kinds) > 0 {
		*u = Unseen{}
	}
	for _, k := range kinds {
		(*u)[k]++
	}
}

// kinds returns the kinds, sorted by group and name.
func (u Unseen) kinds() []policy.Kind {
	return slices.SortedFunc(maps.Keys(u), func(a, b policy.Kind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name))
	})
}

// Notes returns a sentence for each kind.
func (u Unseen) Notes() []string {
	var out []string
	for _, k := range u.kinds() {
		what := "1 object of kind %[2]s was not looked at"
		if u[k] > 1 {
			what = "%[1]d objects of kind %[2]s were not looked at"
		}
		out = append(out, fmt.Sprintf(what, u[k], printable(k.String()))+
			": lint does not support pod templates of this kind")
	}
	return out
}
