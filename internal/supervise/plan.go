// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package supervise

import (
	"fmt"
	"slices"
	"strings"
)

// plan sorts the components into waves: each wave needs and uses only
// components of earlier ones. It returns indexes into cs.
func plan(cs []Component) ([][]int, error) {
	byName := map[string]int{}
	for i, c := range cs {
		if _, dup := byName[c.Name]; dup {
			return nil, fmt.Errorf("plan components: two are named %q", c.Name)
		}
		byName[c.Name] = i
	}
	for _, c := range cs {
		for _, n := range below(c) {
			if _, ok := byName[n]; !ok {
				return nil, fmt.Errorf("plan components: %q needs %q, which does not exist", c.Name, n)
			}
		}
	}
	wave := make([]int, len(cs)) // 0 = not yet placed
	var waves [][]int
	for placed := 0; placed < len(cs); {
		var next []int
		for i, c := range cs {
			if wave[i] == 0 && allPlaced(below(c), byName, wave) {
				next = append(next, i)
			}
		}
		if len(next) == 0 {
			return nil, fmt.Errorf("plan components: they need each other in a circle: %s",
				strings.Join(unplaced(cs, wave), ", "))
		}
		for _, i := range next {
			wave[i] = len(waves) + 1
		}
		waves = append(waves, next)
		placed += len(next)
	}
	return waves, nil
}

// below returns the components that must outlive c.
func below(c Component) []string { return slices.Concat(c.Needs, c.Uses) }

func allPlaced(needs []string, byName map[string]int, wave []int) bool {
	for _, n := range needs {
		if wave[byName[n]] == 0 {
			return false
		}
	}
	return true
}

func unplaced(cs []Component, wave []int) []string {
	var names []string
	for i, c := range cs {
		if wave[i] == 0 {
			names = append(names, c.Name)
		}
	}
	return names
}
