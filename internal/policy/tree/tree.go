// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package tree reads and edits decoded objects: the maps, lists and scalars
// that encoding/json decodes into an any. Rules, placement, admission and lint
// read objects through Value, and change them with edits that Apply makes, so
// that an edit means the same to all of them.
package tree

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Step is one element of a path: a key of a map, or an index of a list.
type Step struct {
	Key   string
	Index int // -1 for a key
}

// Path leads from the root of an object to a field.
type Path []Step

// Keys returns the path that consists of keys.
func Keys(keys ...string) Path {
	p := make(Path, len(keys))
	for i, k := range keys {
		p[i] = Step{k, -1}
	}
	return p
}

// String returns the path as the API server writes it in messages:
// "spec.containers[0].securityContext.privileged".
func (p Path) String() string {
	var b strings.Builder
	for _, s := range p {
		switch {
		case s.Index >= 0:
			b.WriteString("[" + strconv.Itoa(s.Index) + "]")
		case strings.ContainsAny(s.Key, "./[]") || s.Key == "":
			b.WriteString("[" + s.Key + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.Key)
		}
	}
	return b.String()
}

// Pointer returns the path as a JSON pointer (RFC 6901), as JSON patches use
// it.
func (p Path) Pointer() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteByte('/')
		if s.Index >= 0 {
			b.WriteString(strconv.Itoa(s.Index))
		} else {
			b.WriteString(strings.ReplaceAll(strings.ReplaceAll(s.Key, "~", "~0"), "/", "~1"))
		}
	}
	return b.String()
}

// Value is a place in an object: its path and its content. A place that the
// object does not have is a Value too, so that no check is needed on the way
// down.
type Value struct {
	v  any
	at *place
}

// place is a path as a list linked from the leaf to the root: nearly every
// lookup ends in no finding, and must not pay for copying a slice.
type place struct {
	up    *place
	key   string
	index int
}

// Root returns an object as a Value.
func Root(object map[string]any) Value {
	if object == nil {
		return Value{}
	}
	return Value{v: object}
}

// Path returns the path from the root to v.
func (v Value) Path() Path {
	var p Path
	for a := v.at; a != nil; a = a.up {
		p = append(p, Step{a.key, a.index})
	}
	slices.Reverse(p)
	return p
}

// Key returns the last key of the path, or "" for the root and for items of lists.
func (v Value) Key() string {
	if v.at == nil {
		return ""
	}
	return v.at.key
}

// Set reports whether the object has the field. A null counts as a missing
// field, as for the API server.
func (v Value) Set() bool { return v.v != nil }

// Raw returns the value as decoded.
func (v Value) Raw() any { return v.v }

// Get returns the value below v that the keys lead to.
func (v Value) Get(keys ...string) Value {
	for _, k := range keys {
		m, _ := v.v.(map[string]any)
		v = Value{m[k], &place{v.at, k, -1}}
	}
	return v
}

// Find is Get for callers that do not need the path of a missing field: it
// returns the zero Value for it, without an allocation.
func (v Value) Find(keys ...string) Value {
	cur := v.v
	for _, k := range keys {
		m, _ := cur.(map[string]any)
		if cur = m[k]; cur == nil {
			return Value{}
		}
	}
	return v.Get(keys...)
}

// Item returns an element of a list, which need not exist.
func (v Value) Item(i int) Value {
	l, _ := v.v.([]any)
	out := Value{nil, &place{v.at, "", i}}
	if i < len(l) {
		out.v = l[i]
	}
	return out
}

// At returns the value below v that a path leads to.
func (v Value) At(path Path) Value {
	for _, s := range path {
		if s.Index >= 0 {
			v = v.Item(s.Index)
		} else {
			v = v.Get(s.Key)
		}
	}
	return v
}

// Items returns the elements of a list. It is empty if v is not a list.
func (v Value) Items() []Value {
	l, _ := v.v.([]any)
	if len(l) == 0 {
		return nil
	}
	out, places := make([]Value, len(l)), make([]place, len(l))
	for i, e := range l {
		places[i] = place{v.at, "", i}
		out[i] = Value{e, &places[i]}
	}
	return out
}

// Entries returns the values of a map, in the order of their keys. It is empty
// if v is not a map.
func (v Value) Entries() []Value {
	m, _ := v.v.(map[string]any)
	if len(m) == 0 {
		return nil
	}
	out, places := make([]Value, 0, len(m)), make([]place, len(m))
	for key, e := range m {
		at := &places[len(out)]
		*at = place{v.at, key, -1}
		out = append(out, Value{e, at})
	}
	slices.SortFunc(out, func(a, b Value) int { return strings.Compare(a.at.key, b.at.key) })
	return out
}

// Keys returns the sorted keys of a map. It is empty if v is not a map.
func (v Value) Keys() []string {
	m, _ := v.v.(map[string]any)
	if len(m) == 0 {
		return nil
	}
	out := make([]string, 0, len(m))
	for key := range m {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

// Map returns v as a map, or nil if v is not a map.
func (v Value) Map() map[string]any {
	m, _ := v.v.(map[string]any)
	return m
}

// Strings returns the entries of a map whose values are strings.
func (v Value) Strings() map[string]string {
	m := v.Map()
	out := make(map[string]string, len(m))
	for k, e := range m {
		if s, ok := e.(string); ok {
			out[k] = s
		}
	}
	return out
}

// Str returns v as a string, or "" if v is not a string.
func (v Value) Str() string {
	s, _ := v.v.(string)
	return s
}

// True reports whether v is the boolean true.
func (v Value) True() bool {
	b, _ := v.v.(bool)
	return b
}

// Int returns v as an integer, and whether it is one.
func (v Value) Int() (int64, bool) {
	switch n := v.v.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case uint64:
		return int64(n), n <= math.MaxInt64
	case float64:
		return int64(n), n == math.Trunc(n) && math.Abs(n) < 1<<53
	case json.Number:
		i, err := n.Int64()
		return i, err == nil
	}
	return 0, false
}

// Len returns the number of elements of a list or a map.
func (v Value) Len() int {
	switch x := v.v.(type) {
	case []any:
		return len(x)
	case map[string]any:
		return len(x)
	}
	return 0
}
