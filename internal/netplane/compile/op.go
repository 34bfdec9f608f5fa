// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Verb is the action of an operation on its object.
type Verb string

// The verbs; the texts are nft's.
const (
	verbAdd    Verb = "add"
	verbFlush  Verb = "flush"
	verbDelete Verb = "delete"
)

// Op is one step of a transaction. Exactly one of the pointers is set, or no
// pointer for the table itself.
type Op struct {
	Verb    Verb
	Chain   *Chain   // without its rules
	Rule    *Rule    // verbAdd only
	Set     *Set     // without its elements
	Element *Element // verbAdd and verbDelete
}

// Removes reports whether the operation deletes its object.
func (o *Op) Removes() bool { return o.Verb == verbDelete }

// Rule is one rule of a chain.
type Rule struct{ Chain, Text string }

// Replace lists the operations that put the table in place of whatever was
// there under its name.
func (t *Table) Replace() []Op {
	ops := []Op{{Verb: verbAdd}, {Verb: verbDelete}, {Verb: verbAdd}}
	return append(ops, diffTables(&Table{}, t)...)
}

// diffTables lists the operations that turn old into t, or nil if they are equal.
// The order satisfies every reference at every step: objects before their
// references when adding, references before their objects when deleting.
func diffTables(old, t *Table) []Op {
	var ops, rules, last []Op
	oldChains := map[string]*Chain{}
	for i := range old.Chains {
		oldChains[old.Chains[i].Name] = &old.Chains[i]
	}
	for i := range t.Chains {
		c := &t.Chains[i]
		before, known := oldChains[c.Name]
		delete(oldChains, c.Name)
		switch {
		case !known:
			ops = append(ops, Op{Verb: verbAdd, Chain: c})
		case slices.Equal(before.Rules, c.Rules):
			continue
		default:
			rules = append(rules, Op{Verb: verbFlush, Chain: c})
		}
		for _, r := range c.Rules {
			rules = append(rules, Op{Verb: verbAdd, Rule: &Rule{c.Name, r}})
		}
	}
	gone := slices.Sorted(maps.Keys(oldChains))
	for _, verb := range []Verb{verbFlush, verbDelete} { // one may lead to another one
		for _, name := range gone {
			last = append(last, Op{Verb: verb, Chain: oldChains[name]})
		}
	}
	known := map[string]bool{}
	for i := range old.Sets {
		known[old.Sets[i].Name] = true
	}
	for i := range t.Sets {
		if s := &t.Sets[i]; !known[s.Name] {
			ops = append(ops, Op{Verb: verbAdd, Set: s})
		}
		delete(known, t.Sets[i].Name)
	}
	for i := range old.Sets { // of a family that the host no longer has
		if s := &old.Sets[i]; known[s.Name] {
			last = append(last, Op{Verb: verbDelete, Set: s})
		}
	}
	ops = append(ops, rules...)
	ops = append(ops, diffElements(old, t)...)
	return append(ops, last...)
}

// diffElements compares only fragments that are not shared by both tables.
func diffElements(old, t *Table) []Op {
	type key struct{ set, key string }
	var gone, fresh []*Element
	for name, f := range old.fragments {
		if t.fragments[name] != f {
			for i := range f.elements {
				gone = append(gone, &f.elements[i])
			}
		}
	}
	before := make(map[key]*Element, len(gone))
	for _, e := range gone {
		before[key{e.Set, e.Key}] = e
	}
	for name, f := range t.fragments {
		if old.fragments[name] == f {
			continue
		}
		for i := range f.elements {
			e := &f.elements[i]
			k := key{e.Set, e.Key}
			if b, ok := before[k]; ok && b.Value == e.Value {
				delete(before, k)
				continue
			}
			fresh = append(fresh, e)
		}
	}
	ops := make([]Op, 0, len(before)+len(fresh))
	for _, e := range slices.SortedFunc(maps.Values(before), compareElements) {
		ops = append(ops, Op{Verb: verbDelete, Element: e})
	}
	slices.SortFunc(fresh, compareElements)
	for _, e := range fresh {
		ops = append(ops, Op{Verb: verbAdd, Element: e})
	}
	return ops
}

func compareElements(a, b *Element) int {
	return cmp.Or(strings.Compare(a.Set, b.Set), strings.Compare(a.Key, b.Key))
}

// Script renders operations of one table as input for `nft -f`, which applies
// as a whole or not at all. Elements of one set that follow each other share a
// command: nft reads that a third faster than a command each.
func Script(table string, ops []Op) string {
	var b strings.Builder
	name := tableFamily + " " + table
	for i := 0; i < len(ops); i++ {
		op := ops[i]
		b.WriteString(string(op.Verb))
		switch {
		case op.Chain != nil:
			b.WriteString(" chain " + name + " " + op.Chain.Name)
			if c := op.Chain; op.Verb == verbAdd && c.Hook != "" {
				b.WriteString(" { type " + c.Type + " hook " + c.Hook + " priority " + c.Priority + " ; }")
			}
		case op.Rule != nil:
			b.WriteString(" rule " + name + " " + op.Rule.Chain + " " + op.Rule.Text)
		case op.Set != nil:
			b.WriteString(" " + op.Set.kind() + " " + name + " " + op.Set.Name)
			if op.Verb == verbAdd {
				b.WriteString(" { " + op.Set.declaration() + " ; }")
			}
		case op.Element != nil:
			b.WriteString(" element " + name + " " + op.Element.Set + " {")
			sep := " "
			for ; i < len(ops); i++ {
				e := ops[i].Element
				if e == nil || ops[i].Verb != op.Verb || e.Set != op.Element.Set {
					break
				}
				b.WriteString(sep)
				b.WriteString(e.Key)
				if e.Value != "" {
					b.WriteString(" : ")
					b.WriteString(e.Value)
				}
				sep = ", "
			}
			i--
			b.WriteString(" }")
		default:
			b.WriteString(" table " + name)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
