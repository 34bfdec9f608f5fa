// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package dotnet

import (
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// collectionClasses are arrays, lists and dictionaries.
func collectionClasses() []*interp.Class {
	return []*interp.Class{
		arrayClass(), listClass("System.Collections.ArrayList"),
		{Name: "System.Collections.Generic.List`1", Base: "System.Collections.ArrayList"},
		listClass("System.Collections.Queue"), listClass("System.Collections.Stack"),
		hashClass("System.Collections.Hashtable", false),
		hashClass("System.Collections.Specialized.OrderedDictionary", true), {Name: "System.Collections.IDictionary"},
		{Name: "System.Collections.IEnumerable"}, {Name: "System.Collections.IList"},
		{Name: "System.Collections.DictionaryEntry"},
	}
}

func arrayClass() *interp.Class {
	length := func(v any) any {
		items, _ := value.Items(v)
		return i32(len(items))
	}
	return &interp.Class{Name: "System.Array", Props: []interp.Property{
		get("Length", func(a *value.Array) any { return length(a) }), get("Count", func(a *value.Array) any {
			return length(a)
		}),
		get("Rank", func(*value.Array) any { return int32(1) }), get("LongLength", func(a *value.Array) any {
			return int64(len(a.Items))
		}),
		get("IsReadOnly", func(*value.Array) any { return false }), get("IsFixedSize", func(*value.Array) any {
			return true
		}),
	}, Methods: []interp.Method{
		method("GetValue", func(c *interp.Call, a *value.Array) (any, error) { return c.R.Index(a, c.Arg(0)) }),
		method("SetValue", func(c *interp.Call, a *value.Array) (any, error) {
			n, err := c.Int(1)
			if err != nil || n < 0 || n >= len(a.Items) {
				return nil, indexError()
			}
			a.Items[n] = c.Arg(0)
			return interp.Void, nil
		}),
		method("Clone", func(_ *interp.Call, a *value.Array) (any, error) {
			return &value.Array{Items: slices.Clone(a.Items), Elem: a.Elem}, nil
		}),
		method("Contains", func(c *interp.Call, a *value.Array) (any, error) {
			return indexIn(a.Items, c.Arg(0)) >= 0, nil
		}),
		method("IndexOf", func(c *interp.Call, a *value.Array) (any, error) {
			return i32(indexIn(a.Items, c.Arg(0))), nil
		}),
		method("GetEnumerator", func(_ *interp.Call, a *value.Array) (any, error) { return a, nil }),
		method("GetLength", func(_ *interp.Call, a *value.Array) (any, error) { return i32(len(a.Items)), nil }),
		method("GetUpperBound", func(_ *interp.Call, a *value.Array) (any, error) {
			return i32(len(a.Items) - 1),
				nil
		}),
		method("CopyTo", func(c *interp.Call, a *value.Array) (any, error) {
			to, ok := c.Arg(0).(*value.Array)
			n, err := c.Int(1)
			if !ok || err != nil || n < 0 || n+len(a.Items) > len(to.Items) {
				return nil, argError("Destination array was not long enough.")
			}
			copy(to.Items[n:], a.Items)
			return interp.Void, nil
		}),
		method("Add", func(*interp.Call, *value.Array) (any, error) {
			return nil, interp.Failf("System.NotSupportedException", "NotSupportedException", "NotSpecified", nil,
				"Collection was of a fixed size.")
		}),
		method("ToArray", func(_ *interp.Call, a *value.Array) (any, error) { return a, nil }),
	}, StaticMethods: []interp.Method{
		static("Reverse", func(c *interp.Call) (any, error) {
			items, _ := value.Items(c.Arg(0))
			slices.Reverse(items)
			return interp.Void, nil
		}),
		static("Sort", func(c *interp.Call) (any, error) {
			items, _ := value.Items(c.Arg(0))
			sortItems(items)
			return interp.Void, nil
		}),
		static("IndexOf", func(c *interp.Call) (any, error) {
			items, _ := value.Items(c.Arg(0))
			return i32(indexIn(items, c.Arg(1))), nil
		}),
		static("Copy", func(c *interp.Call) (any, error) {
			from, ok1 := c.Arg(0).(*value.Array)
			to, ok2 := c.Arg(1).(*value.Array)
			n, err := c.Int(2)
			if !ok1 || !ok2 || err != nil || n < 0 || n > len(from.Items) || n > len(to.Items) {
				return nil, argError("Source array was not long enough.")
			}
			copy(to.Items, from.Items[:n])
			return interp.Void, nil
		}),
	}}
}

func indexError() error {
	return interp.Failf("System.ArgumentOutOfRangeException", "ArgumentOutOfRangeException", "InvalidArgument", nil,
		"Index was out of range. Must be non-negative and less than the size of the collection.\nParameter name: index")
}

func indexIn(items []any, x any) int {
	for i, v := range items {
		if value.Equal(v, x, true) {
			return i
		}
	}
	return -1
}

// Length: one table; splitting hides which names belong together.
func listClass(name string) *interp.Class {
	isStack := strings.HasSuffix(name, "Stack")
	push := func(c *interp.Call, l *value.List) (any, error) {
		if len(l.Items) >= value.MaxItems {
			return nil, value.ErrTooLarge
		}
		x := c.Arg(0)
		if i := strings.Index(l.Type, "`1["); i > 0 {
			var err error
			if x, err = c.R.ConvertTo(x, strings.TrimSuffix(l.Type[i+3:], "]")); err != nil {
				return nil, err
			}
		}
		if strings.Contains(l.Type, "HashSet") {
			if indexIn(l.Items, x) >= 0 {
				return false, nil
			}
			l.Items = append(l.Items, x)
			return true, nil
		}
		l.Items = append(l.Items, x)
		if l.Type == "System.Collections.ArrayList" && strings.EqualFold(c.Name, "add") {
			return i32(len(l.Items) - 1), nil
		}
		return interp.Void, nil
	}
	take := func(l *value.List, first bool, remove bool) (any, error) {
		if len(l.Items) == 0 {
			return nil, interp.Failf("System.InvalidOperationException", "InvalidOperationException", "NotSpecified",
				nil, "%s empty.", value.ShortName(l.Type))
		}
		i := len(l.Items) - 1
		if first {
			i = 0
		}
		v := l.Items[i]
		if remove {
			l.Items = slices.Delete(l.Items, i, i+1)
		}
		return v, nil
	}
	stacky := func(l *value.List) bool { return isStack || strings.Contains(l.Type, "Stack") }
	at := func(c *interp.Call, i, limit int) (int, error) {
		n, err := c.Int(i)
		if err == nil && (n < 0 || n > limit) {
			err = indexError()
		}
		return n, err
	}
	return &interp.Class{Name: name, New: func(c *interp.Call) (any, error) {
		l := &value.List{Type: name}
		if items, ok := value.Items(c.Arg(0)); ok {
			l.Items = slices.Clone(items)
		}
		return l, nil
	}, Props: []interp.Property{
		get("Count", func(l *value.List) any { return i32(len(l.Items)) }),
		get("Capacity", func(l *value.List) any { return i32(cap(l.Items)) }),
	}, Methods: []interp.Method{
		method("Add", push), method("Enqueue", push), method("Push", push),
		method("Dequeue", func(_ *interp.Call, l *value.List) (any, error) { return take(l, true, true) }),
		method("Pop", func(_ *interp.Call, l *value.List) (any, error) { return take(l, false, true) }),
		method("Peek", func(_ *interp.Call, l *value.List) (any, error) { return take(l, !stacky(l), false) }),
		method("AddRange", func(c *interp.Call, l *value.List) (any, error) {
			items, ok := value.Items(c.Arg(0))
			if !ok {
				items = []any{c.Arg(0)}
			}
			if len(l.Items)+len(items) > value.MaxItems {
				return nil, value.ErrTooLarge
			}
			l.Items = append(l.Items, items...)
			return interp.Void, nil
		}),
		method("Remove", func(c *interp.Call, l *value.List) (any, error) {
			i := indexIn(l.Items, c.Arg(0))
			if i >= 0 {
				l.Items = slices.Delete(l.Items, i, i+1)
			}
			if l.Type == "System.Collections.ArrayList" {
				return interp.Void, nil
			}
			return i >= 0, nil
		}),
		method("RemoveAt", func(c *interp.Call, l *value.List) (any, error) {
			n, err := at(c, 0, len(l.Items)-1)
			if err != nil {
				return nil, err
			}
			l.Items = slices.Delete(l.Items, n, n+1)
			return interp.Void, nil
		}),
		method("RemoveRange", func(c *interp.Call, l *value.List) (any, error) {
			n, err := at(c, 0, len(l.Items))
			if err != nil {
				return nil, err
			}
			k, err := at(c, 1, len(l.Items)-n)
			if err != nil {
				return nil, err
			}
			l.Items = slices.Delete(l.Items, n, n+k)
			return interp.Void, nil
		}),
		method("Insert", func(c *interp.Call, l *value.List) (any, error) {
			n, err := at(c, 0, len(l.Items))
			if err != nil {
				return nil, err
			}
			l.Items = slices.Insert(l.Items, n, c.Arg(1))
			return interp.Void, nil
		}),
		method("Clear", func(_ *interp.Call, l *value.List) (any, error) { l.Items = nil; return interp.Void, nil }),
		method("Contains", func(c *interp.Call, l *value.List) (any, error) {
			return indexIn(l.Items, c.Arg(0)) >= 0, nil
		}),
		method("IndexOf", func(c *interp.Call, l *value.List) (any, error) {
			return i32(indexIn(l.Items, c.Arg(0))), nil
		}),
		method("Reverse", func(_ *interp.Call, l *value.List) (any, error) {
			slices.Reverse(l.Items)
			return interp.Void, nil
		}),
		method("Sort", func(_ *interp.Call, l *value.List) (any, error) {
			sortItems(l.Items)
			return interp.Void, nil
		}),
		method("ToArray", func(_ *interp.Call, l *value.List) (any, error) {
			return value.NewArray(slices.Clone(l.Items)...), nil
		}),
		method("GetEnumerator", func(_ *interp.Call, l *value.List) (any, error) { return l, nil }),
		method("GetRange", func(c *interp.Call, l *value.List) (any, error) {
			n, err := at(c, 0, len(l.Items))
			if err != nil {
				return nil, err
			}
			k, err := at(c, 1, len(l.Items)-n)
			if err != nil {
				return nil, err
			}
			return &value.List{Items: slices.Clone(l.Items[n : n+k]), Type: l.Type}, nil
		}),
		method("Clone", func(_ *interp.Call, l *value.List) (any, error) {
			return &value.List{Items: slices.Clone(l.Items), Type: l.Type}, nil
		}),
	}}
}

func hashClass(name string, ordered bool) *interp.Class {
	item := func(c *interp.Call, h *value.Hash) (any, error) { return c.R.Index(h, c.Arg(0)) }
	set := func(c *interp.Call, h *value.Hash) (any, error) {
		if c.Arg(0) == nil {
			return nil, interp.Failf("System.ArgumentNullException", "ArgumentNullException", "NotSpecified", nil,
				"Key cannot be null.\nParameter name: key")
		}
		h.Set(c.Arg(0), c.Arg(1))
		return interp.Void, nil
	}
	has := func(c *interp.Call, h *value.Hash) (any, error) { _, ok := h.Get(c.Arg(0)); return ok, nil }
	k := &interp.Class{Name: name, New: func(c *interp.Call) (any, error) {
		h := &value.Hash{Ordered: ordered, CaseSensitive: true} // made by New, keys differ by case, as in .NET
		if src, ok := c.Arg(0).(*value.Hash); ok {
			for _, key := range src.Keys() {
				v, _ := src.Get(key)
				h.Set(key, v)
			}
		}
		return h, nil
	}, Props: []interp.Property{
		get("Count", func(h *value.Hash) any { return i32(h.Len()) }),
		get("Keys", func(h *value.Hash) any { return value.NewArray(h.Keys()...) }),
		get("Values", func(h *value.Hash) any { return value.NewArray(h.Values()...) }),
		get("IsReadOnly", func(*value.Hash) any { return false }), get("IsFixedSize", func(*value.Hash) any {
			return false
		}),
	}, Methods: []interp.Method{
		method("Get_Item", item), method("Item", item), method("Set_Item", set),
		method("Add", func(c *interp.Call, h *value.Hash) (any, error) {
			if _, dup := h.Get(c.Arg(0)); dup {
				return nil, argError("Item has already been added. Key in dictionary: '%s'  Key being added: '%s'",
					c.Str(0), c.Str(0))
			}
			return set(c, h)
		}),
		method("Remove", func(c *interp.Call, h *value.Hash) (any, error) {
			h.Remove(c.Arg(0))
			return interp.Void, nil
		}),
		method("Clear", func(_ *interp.Call, h *value.Hash) (any, error) { h.Clear(); return interp.Void, nil }),
		method("ContainsKey", has), method("Contains", has),
		method("ContainsValue", func(c *interp.Call, h *value.Hash) (any, error) {
			return indexIn(h.Values(), c.Arg(0)) >= 0, nil
		}),
		method("Clone", func(_ *interp.Call, h *value.Hash) (any, error) { return h.Clone(), nil }),
		method("GetEnumerator", func(_ *interp.Call, h *value.Hash) (any, error) {
			var list []any
			for _, key := range h.Keys() {
				v, _ := h.Get(key)
				list = append(list, entry(key, v))
			}
			return value.NewArray(list...), nil
		}),
	}}
	if ordered {
		k.Methods = append(k.Methods, method("Insert", func(c *interp.Call, h *value.Hash) (any, error) {
			n, err := c.Int(0)
			h.Insert(n, c.Arg(1), c.Arg(2))
			return interp.Void, err
		}))
	}
	return k
}

func entry(k, v any) *value.Object {
	o := value.NewObject("System.Collections.DictionaryEntry", "Name", k, "Key", k, "Value", v)
	o.Show = []string{"Name", "Value"}
	return o
}
