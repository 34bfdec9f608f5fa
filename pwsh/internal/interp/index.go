// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"unicode/utf8"

	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// Indexer is an Opaque that x[i] works on.
type Indexer interface {
	Index(i any) (any, error)
}

// index is x[i]: negative numbers count from the end, a list of indexes gives
// a list. Source: about_Arrays.
func (r *Runner) index(x *syntax.Index) (any, error) {
	v, err := r.operand(x.X)
	if err != nil {
		return nil, err
	}
	if v == nil && x.NullSafe {
		return nil, nil
	}
	i, err := r.operand(x.I)
	if err != nil {
		return nil, err
	}
	return r.Index(v, i)
}

// Index reads an element.
func (r *Runner) Index(v, i any) (any, error) {
	v = value.Unwrap(v)
	if v == nil {
		return nil, r.fail("System.Management.Automation.RuntimeException", "NullArray", "InvalidOperation", nil,
			"Cannot index into a null array.")
	}
	if h, ok := v.(*value.Hash); ok {
		return r.hashIndex(h, i)
	}
	if many, ok := value.Items(i); ok {
		out := []any{}
		for _, k := range many {
			e, err := r.Index(v, k)
			if err != nil {
				return nil, err
			}
			if _, text := v.(string); e != nil || !text {
				if !r.outside(v, k) {
					out = append(out, e)
				}
			}
		}
		return value.NewArray(out...), nil
	}
	if ix, ok := v.(Indexer); ok {
		return ix.Index(i)
	}
	if s, ok := v.(string); ok {
		return r.charAt(s, i)
	}
	items, ok := value.Items(v)
	if !ok {
		if m, found := r.find(value.TypeName(v), "get_item", false); found && m.method != nil {
			return r.invoke(m.method, v, []any{i})
		}
		if n, err := value.ToInt(i); err == nil && (n == 0 || n == -1) {
			return v, nil // a scalar is its own first element
		}
		if r.strict == 0 {
			return nil, nil
		}
		return nil, r.fail("System.Management.Automation.RuntimeException", "CannotIndex", "InvalidOperation", nil,
			"Unable to index into an object of type %s.", value.TypeName(v))
	}
	n, err := r.offset(i, len(items))
	if err != nil || n < 0 || n >= len(items) {
		return nil, err
	}
	return items[n], nil
}

func (r *Runner) outside(v, k any) bool {
	items, ok := value.Items(v)
	if !ok {
		return false
	}
	n, err := r.offset(k, len(items))
	return err != nil || n < 0 || n >= len(items)
}

func (r *Runner) offset(i any, length int) (int, error) {
	if n, ok := i.(int32); ok {
		if n < 0 {
			return length + int(n), nil
		}
		return int(n), nil
	}
	x, err := value.Int(i, "System.Int32")
	if err != nil {
		return 0, err
	}
	n := int(x.(int32))
	if n < 0 {
		n += length
	}
	return n, nil
}

func (r *Runner) charAt(s string, i any) (any, error) {
	length := utf8.RuneCountInString(s)
	n, err := r.offset(i, length)
	if err != nil || n < 0 || n >= length {
		return nil, err
	}
	if length == len(s) {
		return value.Char(s[n]), nil
	}
	return value.Char([]rune(s)[n]), nil
}

func (r *Runner) hashIndex(h *value.Hash, i any) (any, error) {
	if v, ok := h.Get(i); ok {
		return v, nil
	}
	if h.Ordered && value.IsNumber(i) {
		n, err := value.ToInt(i)
		if err != nil {
			return nil, err
		}
		v, _ := h.At(n)
		return v, nil
	}
	if many, ok := value.Items(i); ok {
		out := []any{}
		for _, k := range many {
			v, err := r.hashIndex(h, k)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return value.NewArray(out...), nil
	}
	return nil, nil
}

// setIndex is x[i] = v.
func (r *Runner) setIndex(x *syntax.Index, v any) error {
	target, err := r.operand(x.X)
	if err != nil {
		return err
	}
	i, err := r.operand(x.I)
	if err != nil {
		return err
	}
	switch t := value.Unwrap(target).(type) {
	case nil:
		return r.fail("System.Management.Automation.RuntimeException", "NullArray", "InvalidOperation", nil,
			"Cannot index into a null array.")
	case *value.Hash:
		if t.Ordered && value.IsNumber(i) {
			if _, has := t.Get(i); !has {
				if n, err := value.ToInt(i); err == nil && t.SetAt(n, v) {
					return nil
				}
			}
		}
		if i == nil {
			return r.fail("System.Management.Automation.RuntimeException", "NullArrayIndex", "InvalidOperation", nil,
				"Index operation failed; the array index evaluated to null.")
		}
		t.Set(i, v)
		return nil
	case *value.Array:
		n, err := r.bound(i, len(t.Items))
		if err != nil {
			return err
		}
		if t.Elem != "Object" {
			if v, err = r.ConvertTo(v, "System."+t.Elem); err != nil {
				return err
			}
		}
		t.Items[n] = v
		return nil
	case *value.List:
		n, err := r.bound(i, len(t.Items))
		if err != nil {
			return err
		}
		t.Items[n] = v
		return nil
	default:
		if m, found := r.find(value.TypeName(t), "set_item", false); found && m.method != nil {
			_, err := r.invoke(m.method, t, []any{i, v})
			return err
		}
		return r.fail("System.Management.Automation.RuntimeException", "CannotIndex", "InvalidOperation", nil,
			"Unable to index into an object of type %s.", value.TypeName(t))
	}
}

func (r *Runner) bound(i any, length int) (int, error) {
	n, err := r.offset(i, length)
	if err != nil {
		return 0, err
	}
	if n < 0 || n >= length {
		return 0, r.fail("System.IndexOutOfRangeException", "IndexOutOfRange", "OperationStopped", nil,
			"Index was outside the bounds of the array.")
	}
	return n, nil
}
