// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"errors"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// property is one argument of -Property: a name, a script block, or a
// hashtable of both. Source: about_Calculated_Properties.
type property struct {
	name   string
	block  *interp.ScriptBlock
	source string
	desc   *bool
	format string
	width  int
	align  int
}

func (p *property) get(c *interp.Invocation, item any) (any, error) {
	if p.block != nil {
		return c.Call(p.block, item)
	}
	return c.R.Property(item, p.source)
}

// properties reads -Property; wildcards are left to the caller.
func properties(c *interp.Invocation, args []any) ([]property, error) {
	var out []property
	for _, a := range args {
		switch x := value.Unwrap(a).(type) {
		case *interp.ScriptBlock:
			out = append(out, property{name: strings.TrimSpace(x.Text()), block: x})
		case *value.Hash:
			p, err := calculated(c, x)
			if err != nil {
				return nil, err
			}
			out = append(out, p)
		default:
			s := c.R.Text(a)
			out = append(out, property{name: s, source: s})
		}
	}
	return out, nil
}

func calculated(c *interp.Invocation, h *value.Hash) (property, error) {
	var p property
	for _, k := range h.Keys() {
		v, _ := h.Get(k)
		key := lower(value.String(k))
		is := func(full string) bool { return key != "" && strings.HasPrefix(full, key) }
		switch {
		case is("name"), is("label"):
			p.name = c.R.Text(v)
		case is("expression"):
			if b, ok := v.(*interp.ScriptBlock); ok {
				p.block = b
			} else {
				p.source = c.R.Text(v)
			}
		case key == "descending", key == "desc":
			on := value.Bool(v)
			p.desc = &on
		case key == "ascending", key == "asc":
			on := !value.Bool(v)
			p.desc = &on
		case is("formatstring"):
			p.format = c.R.Text(v)
		case is("width"):
			p.width, _ = value.ToInt(v)
		case is("alignment"):
			p.align = map[string]int{"right": 1, "left": -1, "center": -1}[lower(c.R.Text(v))]
		default:
			return p, interp.Failf("System.NotSupportedException", "DictionaryKeyIllegal", "InvalidArgument", k,
				"The %s key is not valid.", value.String(k))
		}
	}
	if p.name == "" {
		p.name = p.source
		if p.block != nil {
			p.name = strings.TrimSpace(p.block.Text())
		}
	}
	return p, nil
}

// names lists the properties of an object.
func names(c *interp.Invocation, v any) []string {
	switch x := v.(type) {
	case *value.Object:
		var out []string
		for _, p := range x.Props {
			if _, ok := p.Value.(*interp.ScriptMethod); !ok {
				out = append(out, p.Name)
			}
		}
		if x.Base != nil {
			out = append(out, names(c, x.Base)...)
		}
		return out
	case *value.Hash:
		var out []string
		for _, k := range x.Keys() {
			out = append(out, value.String(k))
		}
		return out
	}
	props, _ := c.R.Members(v)
	var out []string
	for _, p := range props {
		out = append(out, p.Name)
	}
	return out
}

type selectState struct {
	props   []property
	count   int
	last    []any
	seen    []any
	skip    int
	exclude []string
}

func selectObject() *interp.Cmdlet {
	return &interp.Cmdlet{
		Name:    "Select-Object",
		Aliases: []string{"select"},
		Params: "Property:any[]@0 InputObject:any< First:int Last:int Skip:int SkipLast:int Unique? ExpandProperty " +
			"ExcludeProperty[] Index:any[] Wait?",
		Begin: func(c *interp.Invocation) error {
			props, err := properties(c, c.Items("Property"))
			c.State = &selectState{props: props, skip: c.Int("Skip", 0), exclude: c.Strs("ExcludeProperty")}
			if err == nil && c.Has("First") && c.Int("First", 0) == 0 && c.Piped() && !c.Has("Last") {
				return nil
			}
			return err
		},
		Process: func(c *interp.Invocation) error {
			s := c.State.(*selectState)
			if !c.HasItem && !c.Has("InputObject") {
				return nil
			}
			item := c.Any("InputObject")
			if c.Has("Last") || c.Has("SkipLast") {
				s.last = append(s.last, item)
				return nil
			}
			n := s.count
			s.count++
			if n < s.skip {
				return nil
			}
			if idx := c.Items("Index"); idx != nil {
				for _, i := range idx {
					if k, err := value.ToInt(i); err == nil && k == n {
						return selectOne(c, s, item)
					}
				}
				return nil
			}
			first := c.Int("First", -1)
			if first >= 0 && n-s.skip >= first {
				return c.Stop()
			}
			if err := selectOne(c, s, item); err != nil {
				return err
			}
			if first >= 0 && n-s.skip+1 >= first && c.HasItem {
				return c.Stop()
			}
			return nil
		},
		End: func(c *interp.Invocation) error {
			s := c.State.(*selectState)
			list := s.last
			if n := c.Int("SkipLast", 0); n > 0 {
				list = list[:max(len(list)-n, 0)]
			}
			if c.Has("Last") {
				if s.skip > 0 {
					list = list[:max(len(list)-s.skip, 0)]
				}
				head := list[:min(c.Int("First", 0), len(list))]
				rest := list[len(head):]
				list = append(slices.Clip(head), rest[max(len(rest)-c.Int("Last", 0), 0):]...)
			} else if s.skip > 0 {
				list = list[min(s.skip, len(list)):]
			}
			for _, v := range list {
				if err := selectOne(c, s, v); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func selectOne(c *interp.Invocation, s *selectState, item any) error {
	out := item
	if name := c.Str("ExpandProperty", ""); name != "" {
		v, ok := c.R.HasProperty(item, name)
		if !ok {
			return c.Error(interp.Failf("System.Management.Automation.PSArgumentException", "ExpandPropertyNotFound",
				"InvalidArgument", item, "Property \"%s\" cannot be found.", name))
		}
		return c.WriteAll(v)
	}
	if len(s.props) > 0 || len(s.exclude) > 0 {
		o := &value.Object{}
		if t := value.TypeName(item); t != value.CustomType && t != "" {
			o.Types = nil
		}
		props := s.props
		if len(props) == 0 {
			props = []property{{name: "*", source: "*"}}
		}
		for _, p := range props {
			if p.block == nil && value.HasWildcard(p.source) {
				for _, n := range names(c, item) {
					if value.Like(n, p.source, false) && (len(s.exclude) == 0 || !matches(s.exclude, n)) {
						v, err := c.R.Property(item, n)
						if err != nil {
							continue
						}
						o.Set(n, v)
					}
				}
				continue
			}
			if len(s.exclude) > 0 && matches(s.exclude, p.name) {
				continue
			}
			v, err := p.get(c, item)
			if err != nil {
				var ab interface{ Unwrap() error }
				if !errors.As(err, &ab) {
					return err
				}
				v = nil // a calculated property that fails is empty
			}
			name := p.name
			if p.block == nil {
				name = spelled(c, item, name)
			}
			o.Set(name, v)
		}
		out = o
	}
	if c.Switch("Unique") {
		for _, v := range s.seen {
			if sameObject(v, out) {
				return nil
			}
		}
		s.seen = append(s.seen, out)
	}
	return c.Write(out)
}

// spelled returns a property's name as the object spells it: PowerShell keeps the
// spelling of the argument only for calculated ones.
func spelled(c *interp.Invocation, item any, name string) string {
	if c.R.Edition() == 0 {
		for _, n := range names(c, item) {
			if strings.EqualFold(n, name) {
				return n
			}
		}
	}
	return name
}

func sameObject(a, b any) bool {
	x, ok1 := a.(*value.Object)
	y, ok2 := b.(*value.Object)
	if ok1 && ok2 && x.Base == nil && y.Base == nil {
		if len(x.Props) != len(y.Props) {
			return false
		}
		for _, p := range x.Props {
			q, ok := y.Get(p.Name)
			if !ok || !sameObject(p.Value, q) {
				return false
			}
		}
		return true
	}
	return value.Equal(a, b, true)
}
