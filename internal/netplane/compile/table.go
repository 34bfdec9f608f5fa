// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tableFamily is the nftables family of the table.
const tableFamily = "inet"

// Table is the desired content of the one nftables table.
type Table struct {
	Name   string
	Chains []Chain // sorted by name
	Sets   []Set   // sorted by name
	// fragments are the elements of the sets, by the object they come from.
	fragments map[objectKey]*fragment
}

// objectKey names an object of the intent without building a string.
type objectKey struct{ kind, id string }

// The kinds of objects that have fragments, as error messages call them.
const (
	kindEndpoint     = "endpoint"
	kindLoadBalancer = "load balancer"
	kindPeers        = "peers" // one for all
)

func (k objectKey) String() string { return k.kind + " " + k.id }

func (k objectKey) compare(o objectKey) int {
	return cmp.Or(strings.Compare(k.kind, o.kind), strings.Compare(k.id, o.id))
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
	// Type is the nft text after "type".
	Type string
	// Value is the right side of a map's type; empty for a set.
	Value string
}

// Element is one entry of a set or map. Concatenated parts are joined by " . ".
type Element struct {
	Set, Key, Value string
}

// fragment is the contribution of one object of the intent to the table.
type fragment struct {
	source   any // the object, for comparing with its next version
	elements []Element
	chains   []Chain // chains that the elements lead to; shared with other fragments
}

// elements lists all elements in a stable order.
func (t *Table) elements() []Element {
	var all []Element
	for _, name := range slices.SortedFunc(maps.Keys(t.fragments), objectKey.compare) {
		all = append(all, t.fragments[name].elements...)
	}
	return all
}

// collect gathers the chains of the fragments. Equal names are equal
// content, because a name is made from the chain's content.
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
	slices.SortFunc(t.Chains, func(a, b Chain) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(t.Sets, func(a, b Set) int { return strings.Compare(a.Name, b.Name) })
}

// write prints the table with the sets first and the base chains before the
// chains that they lead to.
func (t *Table) write(b *strings.Builder) {
	elements := map[string][]*Element{}
	for _, f := range t.fragments {
		for i := range f.elements {
			e := &f.elements[i]
			elements[e.Set] = append(elements[e.Set], e)
		}
	}
	fmt.Fprintf(b, "table %s %s {\n", tableFamily, t.Name)
	for _, s := range t.Sets {
		fmt.Fprintf(b, "\t%s %s {\n\t\t%s\n", s.kind(), s.Name, s.declaration())
		list := elements[s.Name]
		slices.SortFunc(list, compareElements)
		for i, e := range list {
			open, end := "elements = { ", ","
			if i > 0 {
				open = "             "
			}
			if i == len(list)-1 {
				end = " }"
			}
			fmt.Fprintf(b, "\t\t%s%s%s\n", open, e, end)
		}
		b.WriteString("\t}\n")
	}
	for _, base := range []bool{true, false} {
		for _, c := range t.Chains {
			if base != (c.Hook != "") {
				continue
			}
			fmt.Fprintf(b, "\tchain %s {\n", c.Name)
			if base {
				fmt.Fprintf(b, "\t\ttype %s hook %s priority %s\n", c.Type, c.Hook, c.Priority)
			}
			for _, r := range c.Rules {
				fmt.Fprintf(b, "\t\t%s\n", r)
			}
			b.WriteString("\t}\n")
		}
	}
	b.WriteString("}\n")
}

// Set returns the set with a name, or nil.
func (t *Table) Set(name string) *Set {
	i, found := slices.BinarySearchFunc(t.Sets, name, func(s Set, name string) int {
		return strings.Compare(s.Name, name)
	})
	if !found {
		return nil
	}
	return &t.Sets[i]
}

func (s *Set) kind() string {
	if s.Value != "" {
		return "map"
	}
	return "set"
}

// declaration returns the type of the keys and, of a map, of the values.
func (s *Set) declaration() string {
	d := "type " + s.Type
	if s.Value != "" {
		d += " : " + s.Value
	}
	return d
}

// String returns the element as nft reads it.
func (e *Element) String() string {
	if e.Value == "" {
		return e.Key
	}
	return e.Key + " : " + e.Value
}
