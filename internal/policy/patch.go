// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// PatchOp is one operation of a JSON patch (RFC 6902).
type PatchOp struct {
	Op    EditOp
	Path  string // a JSON pointer
	Value any    // of Add and Replace
}

// MarshalJSON writes the operation as RFC 6902 has it.
func (o PatchOp) MarshalJSON() ([]byte, error) {
	if o.Op == Remove {
		return json.Marshal(struct {
			Op   EditOp `json:"op"`
			Path string `json:"path"`
		}{o.Op, o.Path})
	}
	return json.Marshal(struct {
		Op    EditOp `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}{o.Op, o.Path, o.Value})
}

// Patch turns edits of an object into a JSON patch of it: the maps on the way
// to an Add that are not there, or are null, come first. A Remove of what is
// not there is left out. Edits are applied in their order; indexes count as
// they are after the edits before. The object stays as it is.
//
// Errors: the object has something on the way that is neither a map nor a
// list, or an index that is out of range.
func Patch(object map[string]any, edits []Edit) ([]PatchOp, error) {
	ops, _, err := patchAll(object, edits)
	return ops, err
}

// Apply is the object with the edits made, as Patch means them. The object
// stays as it is; the result shares what was not edited with it.
func Apply(object map[string]any, edits []Edit) (map[string]any, error) {
	_, after, err := patchAll(object, edits)
	return after, err
}

func patchAll(object map[string]any, edits []Edit) ([]PatchOp, map[string]any, error) {
	var ops []PatchOp
	root := any(object)
	for _, e := range edits {
		op, next, err := patch(root, e)
		if err != nil {
			return nil, nil, fmt.Errorf("patch %s: %w", e.Path, err)
		}
		if op.Op != "" {
			ops = append(ops, op)
		}
		root = next
	}
	after, _ := root.(map[string]any)
	return ops, after, nil
}

// patch makes the operation of one edit, and the object after it.
func patch(root any, e Edit) (PatchOp, any, error) {
	if len(e.Path) == 0 {
		return PatchOp{}, root, fmt.Errorf("the whole object cannot be edited")
	}
	op := PatchOp{Op: e.Op, Path: e.Path.Pointer(), Value: e.Value}
	at, missing, err := descend(root, e.Path)
	switch {
	case err != nil:
		return op, root, err
	case missing < len(e.Path) && e.Op == Remove:
		return PatchOp{}, root, nil
	case missing < len(e.Path) && e.Op == Replace:
		return op, root, fmt.Errorf("there is nothing to replace")
	case missing < len(e.Path)-1: // the first missing map takes all below it
		op.Path = e.Path[:missing+1].Pointer()
		if e.Path[missing].Index >= 0 {
			return op, root, fmt.Errorf("there is no %s", e.Path[:missing+1])
		}
		for i := len(e.Path) - 1; i > missing; i-- {
			if e.Path[i].Index >= 0 {
				return op, root, fmt.Errorf("there is no list %s", e.Path[:i])
			}
			op.Value = map[string]any{e.Path[i].Key: op.Value}
		}
	}
	last := e.Path[min(missing, len(e.Path)-1)]
	if i := last.Index; i >= 0 {
		if list, _ := at.([]any); i > len(list) || e.Op != Add && i == len(list) {
			return op, root, fmt.Errorf("index %d of %d elements", i, len(list))
		}
	}
	next, err := with(root, e.Path[:min(missing+1, len(e.Path))], op)
	return op, next, err
}

// descend follows a path as far as the object has it. missing is the number of
// steps that are there; at is what the next step would lead from. A null is
// not there.
func descend(root any, path Path) (at any, missing int, err error) {
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

// with is the tree with one operation done; only what lies on the way is
// copied.
func with(node any, path Path, op PatchOp) (any, error) {
	s := path[0]
	switch v := node.(type) {
	case map[string]any:
		out := maps.Clone(v)
		switch {
		case len(path) > 1:
			sub, err := with(v[s.Key], path[1:], op)
			if err != nil {
				return nil, err
			}
			out[s.Key] = sub
		case op.Op == Remove:
			delete(out, s.Key)
		default:
			out[s.Key] = op.Value
		}
		return out, nil
	case []any:
		out := slices.Clone(v)
		switch {
		case len(path) > 1:
			sub, err := with(v[s.Index], path[1:], op)
			if err != nil {
				return nil, err
			}
			out[s.Index] = sub
		case op.Op == Remove:
			out = slices.Delete(out, s.Index, s.Index+1)
		case op.Op == Replace:
			out[s.Index] = op.Value
		default:
			out = slices.Insert(out, s.Index, op.Value)
		}
		return out, nil
	}
	return nil, fmt.Errorf("%T is neither a map nor a list", node)
}
