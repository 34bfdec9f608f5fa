// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package value

import (
	"math"
	"slices"
	"strings"
)

// Hash is a hashtable or an ordered dictionary. Keys that are strings are
// compared without case, unless CaseSensitive.
//
// Fidelity: simplified - a Hashtable enumerates in the order of insertion;
// .NET's order depends on hash codes (docs/fidelity/pwsh.md).
type Hash struct {
	Ordered       bool
	CaseSensitive bool
	entries       []entry
	index         map[any]int
	dead          int // removed entries still in entries
}

type entry struct {
	key, val any
	live     bool
}

// hashKey returns a comparable key for a value: equal values of different integer
// types stay different, as in .NET.
func (h *Hash) hashKey(k any) any {
	switch k := Unwrap(k).(type) {
	case string:
		if h.CaseSensitive {
			return k
		}
		return strings.ToLower(k)
	case float64:
		if math.IsNaN(k) {
			return "\x00nan"
		}
		return k
	case bool, int32, int64, uint8, int8, int16, uint16, uint32, uint64, Char, Guid, TimeSpan, Version, float32:
		return k
	case DateTime:
		return k.UnixNano()
	case *Type:
		return "\x00type:" + k.Name
	case Keyer:
		return k.HashKey()
	default:
		return k // a pointer: identity
	}
}

// Keyer is an Opaque whose equality is not identity, such as an IP address.
type Keyer interface{ HashKey() any }

// Len returns the number of entries.
func (h *Hash) Len() int { return len(h.index) }

// Get returns the value of a key.
func (h *Hash) Get(k any) (any, bool) {
	if i, ok := h.index[h.hashKey(k)]; ok {
		return h.entries[i].val, true
	}
	return nil, false
}

// Set puts an entry.
func (h *Hash) Set(k, v any) {
	if h.index == nil {
		h.index = map[any]int{}
	}
	hk := h.hashKey(k)
	if i, ok := h.index[hk]; ok {
		h.entries[i].val = v
		return
	}
	h.index[hk] = len(h.entries)
	h.entries = append(h.entries, entry{k, v, true})
}

// Remove removes an entry.
func (h *Hash) Remove(k any) {
	hk := h.hashKey(k)
	i, ok := h.index[hk]
	if !ok {
		return
	}
	delete(h.index, hk)
	h.entries[i] = entry{}
	h.dead++
	if h.dead > 16 && h.dead > len(h.entries)/2 {
		h.compact()
	}
}

func (h *Hash) compact() {
	if h.index == nil {
		return
	}
	h.entries = slices.DeleteFunc(h.entries, func(e entry) bool { return !e.live })
	for i, e := range h.entries {
		h.index[h.hashKey(e.key)] = i
	}
	h.dead = 0
}

// Clear removes everything.
func (h *Hash) Clear() { h.entries, h.index, h.dead = nil, nil, 0 }

// Insert puts a new entry at a position of an ordered dictionary.
func (h *Hash) Insert(at int, k, v any) {
	h.compact()
	h.Set(k, v)
	last := len(h.entries) - 1
	e := h.entries[last]
	h.entries = slices.Insert(h.entries[:last], min(max(at, 0), last), e)
	h.compact()
}

// At returns the n-th value.
func (h *Hash) At(n int) (any, bool) {
	h.compact()
	if n < 0 || n >= len(h.entries) {
		return nil, false
	}
	return h.entries[n].val, true
}

// SetAt changes the n-th value.
func (h *Hash) SetAt(n int, v any) bool {
	h.compact()
	if n < 0 || n >= len(h.entries) {
		return false
	}
	h.entries[n].val = v
	return true
}

// Keys lists the keys.
func (h *Hash) Keys() []any {
	keys := make([]any, 0, len(h.index))
	for _, e := range h.entries {
		if e.live {
			keys = append(keys, e.key)
		}
	}
	return keys
}

// Values lists the values.
func (h *Hash) Values() []any {
	vals := make([]any, 0, len(h.index))
	for _, e := range h.entries {
		if e.live {
			vals = append(vals, e.val)
		}
	}
	return vals
}

// Clone returns a copy with the same keys and values.
func (h *Hash) Clone() *Hash {
	c := &Hash{Ordered: h.Ordered, CaseSensitive: h.CaseSensitive}
	for _, e := range h.entries {
		if e.live {
			c.Set(e.key, e.val)
		}
	}
	return c
}
