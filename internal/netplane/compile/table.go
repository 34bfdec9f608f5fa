// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"maps"
	"slices"
)

// Family is the nftables family of the table.
const Family = "inet"

// Table is the desired content of the one nftables table.
type Table struct {
	Name   string
	Chains []Chain // sorted by name
	Sets   []Set   // sorted by name
	// fragments are the elements of the sets, by the object they come from.
	fragments map[string]*fragment
}

// Chain is a chain with all its rules.
type Chain struct {
	Name string
	// Type, Hook and Priority are set for base chains.
	Type, Hook, Priority string
	Rules                []string
}

// Set is a set or a map, without its elements.
type Set struct {
	Name string
	// Type is the nft text after "type", or after "typeof" if TypeOf.
	Type   string
	TypeOf bool
	// Value is the right side of a map's type; empty for a set.
	Value string
}

// Element is one entry of a set or map. Concatenated parts are joined by " . ".
type Element struct {
	Set, Key, Value string
}

// fragment is what one object of the intent contributes to the table.
type fragment struct {
	source   any // the object, for comparing with its next version
	elements []Element
	chains   []Chain // chains that the elements lead to; shared with other fragments
}

// Elements lists all elements in a stable order.
func (t *Table) Elements() []Element {
	var all []Element
	for _, name := range slices.Sorted(maps.Keys(t.fragments)) {
		all = append(all, t.fragments[name].elements...)
	}
	return all
}

// collect gathers the chains of the fragments. Equal names are equal
// content, because a name is made from what it stands for.
func (t *Table) collect() {
	chains := map[string]bool{}
	for _, c := range t.Chains {
		chains[c.Name] = true
	}
	for _, f := range t.fragments {
		for _, c := range f.chains {
			if !chains[c.Name] {
				chains[c.Name] = true
				t.Chains = append(t.Chains, c)
			}
		}
	}
	slices.SortFunc(t.Chains, func(a, b Chain) int { return compareNames(a.Name, b.Name) })
	slices.SortFunc(t.Sets, func(a, b Set) int { return compareNames(a.Name, b.Name) })
}

func compareNames(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
