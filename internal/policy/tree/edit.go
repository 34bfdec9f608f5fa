// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package tree

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Op is an operation of a JSON patch (RFC 6902).
type Op string

// The operations.
const (
	Add     Op = "add"
	Remove  Op = "remove"
	Replace Op = "replace"
)

// Edit is one change of an object.
//
//   - Add sets a key of a map, or inserts an item before the index of a list.
//     Missing maps along the path are created.
//   - Replace sets a key or an item that exists.
//   - Remove removes a key or an item, and then each map along the path that
//     becomes empty, unless it is an item of a list or the object.
//
// A null is a missing field. An edit without effect is not an error: it removes
// a missing field, or sets a key to its current value.
type Edit struct {
	Op    Op
	Path  Path
	Value any
}

// MarshalJSON writes the edit as an operation of a JSON patch.
func (e Edit) MarshalJSON() ([]byte, error) {
	if e.Op == Remove {
		return json.Marshal(struct {
			Op   Op     `json:"op"`
			Path string `json:"path"`
		}{e.Op, e.Path.Pointer()})
	}
	return json.Marshal(struct {
		Op    Op     `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}{e.Op, e.Path.Pointer(), e.Value})
}

// Patch is a list of explicit edits: they create no missing maps and remove no
// empty ones implicitly. In JSON it is a JSON patch (RFC 6902).
type Patch []Edit

// Apply applies edits in order; an index counts items after the preceding
// edits. It returns the edited object, and the equivalent patch, without edits
// that have no effect. The object itself is not changed; the result shares
// unedited parts with it, and values with the edits.
//
// It fails if the path leads through something that is neither a map nor a
// list, if an index is out of range, and if a field to replace is missing.
func Apply(object map[string]any, edits []Edit) (map[string]any, Patch, error) {
	var patch Patch
	root := any(object)
	for _, e := range edits {
		done, next, err := apply(root, e)
		if err != nil {
			return nil, nil, fmt.Errorf("%s %s: %w", e.Op, e.Path, err)
		}
		if done.Op != "" {
			patch = append(patch, done)
		}
		root = next
	}
	after, _ := root.(map[string]any)
	return after, patch, nil
}

// apply applies one edit and returns its explicit form, or the zero Edit if it
// has no effect.
func apply(root any, e Edit) (Edit, any, error) {
	if len(e.Path) == 0 {
		return e, root, errors.New("the whole object cannot be edited")
	}
	at, found, err := descend(root, e.Path)
	switch missing := found < len(e.Path); {
	case err != nil:
		return e, root, err
	case missing && e.Op == Remove:
		return Edit{}, root, nil
	case missing && e.Op == Replace:
		return e, root, errors.New("there is nothing to replace")
	case e.Op == Remove:
		e.Path = emptied(root, e.Path)
	case !missing && e.Path[found-1].Index < 0 && equal(at, e.Path[found-1], e.Value):
		return Edit{}, root, nil
	case found < len(e.Path)-1: // the first missing map takes all below it
		if e.Path[found].Index >= 0 {
			return e, root, fmt.Errorf("there is no %s", e.Path[:found+1])
		}
		for i := len(e.Path) - 1; i > found; i-- {
			if e.Path[i].Index >= 0 {
				return e, root, fmt.Errorf("there is no list %s", e.Path[:i])
			}
			e.Value = map[string]any{e.Path[i].Key: e.Value}
		}
		e.Path = e.Path[:found+1]
	}
	if i := e.Path[len(e.Path)-1].Index; i >= 0 {
		if list, _ := at.([]any); i > len(list) || e.Op != Add && i == len(list) {
			return e, root, fmt.Errorf("index %d of %d elements", i, len(list))
		}
	}
	next, err := with(root, e.Path, e)
	return e, next, err
}

// descend follows a path as far as it exists in the object. found is the number
// of its steps that exist; at is the value to which the first missing step, or
// the last step of the path, applies.
func descend(root any, path Path) (at any, found int, err error) {
	at = root
	for i, s := range path {
		var next any
		switch v := at.(type) {
		case map[string]any:
			if s.Index >= 0 {
				return at, i, fmt.Errorf("%s is a map, not a list", path[:i])
			}
			next = v[s.Key]
		case []any:
			if s.Index < 0 {
				return at, i, fmt.Errorf("%s is a list, not a map", path[:i])
			}
			if s.Index < len(v) {
				next = v[s.Index]
			}
		default:
			return at, i, fmt.Errorf("%s is %T, not a map or a list", path[:i], at)
		}
		if next == nil {
			return at, i, nil
		}
		if i < len(path)-1 {
			at = next
		}
	}
	return at, len(path), nil
}

// equal reports whether a key of a map has the given value.
func equal(at any, key Step, value any) bool {
	m, _ := at.(map[string]any)
	return reflect.DeepEqual(m[key.Key], value)
}

// emptied returns the path of the largest map that removing a path leaves
// empty, or the path itself if there is no such map.
func emptied(root any, path Path) Path {
	object, _ := root.(map[string]any)
	for n := len(path); n > 1 && path[n-1].Index < 0 && path[n-2].Index < 0; n-- {
		if Root(object).At(path[:n-1]).Len() != 1 {
			break
		}
		path = path[:n-1]
	}
	return path
}

// with returns the tree after an edit of a path below a node. It copies only
// the nodes along the path.
func with(node any, path Path, e Edit) (any, error) {
	s := path[0]
	switch v := node.(type) {
	case map[string]any:
		out := maps.Clone(v)
		switch {
		case len(path) > 1:
			sub, err := with(v[s.Key], path[1:], e)
			if err != nil {
				return nil, err
			}
			out[s.Key] = sub
		case e.Op == Remove:
			delete(out, s.Key)
		default:
			out[s.Key] = e.Value
		}
		return out, nil
	case []any:
		out := slices.Clone(v)
		switch {
		case len(path) > 1:
			sub, err := with(v[s.Index], path[1:], e)
			if err != nil {
				return nil, err
			}
			out[s.Index] = sub
		case e.Op == Remove:
			out = slices.Delete(out, s.Index, s.Index+1)
		case e.Op == Replace:
			out[s.Index] = e.Value
		default:
			out = slices.Insert(out, s.Index, e.Value)
		}
		return out, nil
	}
	return nil, fmt.Errorf("%T is neither a map nor a list", node)
}
