// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"encoding/json"
	"maps"
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

// String writes the path as the API server does in its messages:
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

// Pointer writes the path as a JSON pointer (RFC 6901), as JSON patches use it.
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

// Value is a place in a decoded object: what stands there, and how one gets
// there. What an object does not have is a Value too, so that rules need no
// checks on the way down. The tree is what encoding/json decodes into an any.
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

func (a *place) path() Path {
	var p Path
	for ; a != nil; a = a.up {
		p = append(p, Step{a.key, a.index})
	}
	slices.Reverse(p)
	return p
}

// Path is the way from the root to v.
func (v Value) Path() Path { return v.at.path() }

// Set says whether the field is there. A null is the same as no field: so the
// API server reads it.
func (v Value) Set() bool { return v.v != nil }

// Raw is what stands there.
func (v Value) Raw() any { return v.v }

// Get goes down by keys.
func (v Value) Get(keys ...string) Value {
	for _, k := range keys {
		m, _ := v.v.(map[string]any)
		v = Value{m[k], &place{v.at, k, -1}}
	}
	return v
}

// look is Get for keys of which only the presence matters: it makes no path
// for what is not there.
func (v Value) look(keys []string) Value {
	cur := v.v
	for _, k := range keys {
		m, _ := cur.(map[string]any)
		if cur = m[k]; cur == nil {
			return Value{}
		}
	}
	return v.Get(keys...)
}

// Items are the elements of a list; none if v is no list.
func (v Value) Items() []Value {
	l, _ := v.v.([]any)
	if len(l) == 0 {
		return nil
	}
	out := make([]Value, len(l))
	for i, e := range l {
		out[i] = Value{e, &place{v.at, "", i}}
	}
	return out
}

// Keys are the sorted keys of a map; none if v is no map.
func (v Value) Keys() []string {
	m, _ := v.v.(map[string]any)
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

// Str is the string that stands there, or "".
func (v Value) Str() string {
	s, _ := v.v.(string)
	return s
}

// True says whether the boolean true stands there.
func (v Value) True() bool {
	b, _ := v.v.(bool)
	return b
}

// Int is the whole number that stands there.
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

// Len is the number of elements of a list or a map.
func (v Value) Len() int {
	switch x := v.v.(type) {
	case []any:
		return len(x)
	case map[string]any:
		return len(x)
	}
	return 0
}

// index is the element of a list, there or not.
func (v Value) index(i int) Value {
	l, _ := v.v.([]any)
	out := Value{nil, &place{v.at, "", i}}
	if i < len(l) {
		out.v = l[i]
	}
	return out
}
