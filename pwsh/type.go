// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package pwsh

import "github.com/mullion-k8s/mullion/pwsh/internal/interp"

// Type is a .NET type whose objects are Go values. Arguments and results are
// converted as for a [Cmdlet].
type Type struct {
	// Name is the full name, such as Acme.Counter.
	Name string
	// New creates an object for New-Object and [Acme.Counter]::new(…). A nil New
	// means that scripts cannot make one.
	New func(args []any) (any, error)
	// Text implements ToString. The default is the type's name.
	Text func(self any) string
	// Properties and Methods are the members of an object.
	Properties []Property
	Methods    []Method
	// StaticProperties and StaticMethods are reached by ::. Their self is nil.
	StaticProperties []Property
	StaticMethods    []Method
}

// Property is a property of a Type. A nil Set makes it read-only.
type Property struct {
	Name string
	Get  func(self any) (any, error)
	Set  func(self, v any) error
}

// Method is a method of a Type with all of its overloads.
type Method struct {
	Name string
	Call func(self any, args []any) (any, error)
}

// object is the state of an object that belongs to Go code.
type object struct{ v any }

func (t *Type) class() *interp.Class {
	c := &interp.Class{
		Name:          t.Name,
		Props:         properties(t.Properties),
		Methods:       methods(t.Methods),
		Statics:       properties(t.StaticProperties),
		StaticMethods: methods(t.StaticMethods),
	}
	if t.New != nil {
		c.New = func(call *interp.Call) (any, error) {
			v, err := t.New(toGoItems(call.R, call.Args))
			if err != nil {
				return nil, err
			}
			i := &interp.Instance{Class: c, Data: object{v}}
			if t.Text != nil {
				i.Str = func() string { return t.Text(v) }
			}
			return i, nil
		}
	}
	return c
}

func properties(list []Property) []interp.Property {
	out := make([]interp.Property, len(list))
	for i, p := range list {
		out[i] = interp.Property{Name: p.Name, Get: func(c *interp.Call) (any, error) {
			v, err := p.Get(selfOf(c))
			return fromGo(v), err
		}}
		if p.Set != nil {
			out[i].Set = func(c *interp.Call, v any) error { return p.Set(selfOf(c), toGo(c.R, v)) }
		}
	}
	return out
}

func methods(list []Method) []interp.Method {
	out := make([]interp.Method, len(list))
	for i, m := range list {
		out[i] = interp.Method{Name: m.Name, Fn: func(c *interp.Call) (any, error) {
			v, err := m.Call(selfOf(c), toGoItems(c.R, c.Args))
			return fromGo(v), err
		}}
	}
	return out
}

// selfOf returns the Go value that a member is called on; nil for a static one.
func selfOf(c *interp.Call) any {
	if c.Self == nil {
		return nil
	}
	return toGo(c.R, c.Self)
}
