// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package dotnet implements the .NET types that scripts use. Each is a table of
// members; there is a file for each family of types.
//
// Fidelity: subset - a member that is not in a table is an error that names
// it; docs/fidelity/pwsh.md lists the types.
//
// Source: the .NET API reference of each type, https://learn.microsoft.com/dotnet/api/,
// read 2026-11.
package dotnet

import (
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// Table lists every class.
func Table() []*interp.Class {
	var all []*interp.Class
	for _, f := range []func() []*interp.Class{
		objectClasses, numberClasses, textClasses, collectionClasses, timeClasses, errorClasses, regexClasses,
		encodingClasses, convertClasses, environmentClasses, consoleClasses, fileClasses, streamClasses, threadClasses,
		addressClasses, socketClasses, listenerClasses, webClasses, processClasses, securityClasses, identityClasses,
		accessClasses,
	} {
		all = append(all, f()...)
	}
	return all
}

// get returns a read-only property of a Go type.
func get[T any](name string, f func(x T) any) interp.Property {
	return interp.Property{Name: name, Get: func(c *interp.Call) (any, error) { return f(self[T](c)), nil }}
}

// getErr is get for a property that can fail.
func getErr[T any](name string, f func(c *interp.Call, x T) (any, error)) interp.Property {
	return interp.Property{Name: name, Get: func(c *interp.Call) (any, error) { return f(c, self[T](c)) }}
}

// rw returns a property that can be set.
func rw[T any](name string, f func(x T) any, set func(c *interp.Call, x T, v any) error) interp.Property {
	return interp.Property{Name: name, Get: func(c *interp.Call) (any, error) { return f(self[T](c)), nil },
		Set: func(c *interp.Call, v any) error { return set(c, self[T](c), v) }}
}

// self returns the object on which a member is called: a value of package value,
// or the state of an Instance.
func self[T any](c *interp.Call) T {
	v := value.Unwrap(c.Self)
	if i, ok := v.(*interp.Instance); ok {
		v = i.Data
	}
	x, _ := v.(T) // the class tables pair a class with one Go type
	return x
}

// data returns the state of an Instance argument.
func data[T any](v any) (T, bool) {
	v = value.Unwrap(v)
	if i, ok := v.(*interp.Instance); ok {
		v = i.Data
	}
	x, ok := v.(T)
	return x, ok
}

// method returns a method of a Go type.
func method[T any](name string, f func(c *interp.Call, x T) (any, error)) interp.Method {
	return interp.Method{Name: name, Fn: func(c *interp.Call) (any, error) { return f(c, self[T](c)) }}
}

// static returns a static method.
func static(name string, f func(c *interp.Call) (any, error)) interp.Method {
	return interp.Method{Name: name, Fn: f}
}

// constant returns a static property that never changes.
func constant(name string, v any) interp.Property {
	return interp.Property{Name: name, Get: func(*interp.Call) (any, error) { return v, nil }}
}

// computed returns a static property.
func computed(name string, f func(c *interp.Call) (any, error)) interp.Property {
	return interp.Property{Name: name, Get: f}
}

// enum returns an enumeration of names, numbered from 0.
func enum(name string, names ...string) *interp.Class {
	c := &interp.Class{Name: name, Base: "System.Enum"}
	for i, n := range names {
		c.Enum = append(c.Enum, interp.EnumMember{Name: n, Value: int64(i)})
	}
	return c
}

// numbered returns an enumeration of name, number pairs.
func numbered(name string, flags bool, members ...interp.EnumMember) *interp.Class {
	return &interp.Class{Name: name, Base: "System.Enum", Enum: members, Flags: flags}
}

func member(name string, n int64) interp.EnumMember { return interp.EnumMember{Name: name, Value: n} }

// instance creates an object of the named class.
func instance(r *interp.Runner, class string, data any, str func() string) *interp.Instance {
	c := r.Class(class)
	if c == nil {
		c = &interp.Class{Name: class}
	}
	return &interp.Instance{Class: c, Data: data, Str: str}
}

func argError(format string, args ...any) error {
	return interp.Failf("System.ArgumentException", "ArgumentException", "InvalidArgument", nil, format, args...)
}

func i32(n int) any { return int32(n) }

func ints(c *interp.Call, from int) ([]int, error) {
	var out []int
	for i := from; i < c.N(); i++ {
		n, err := c.Int(i)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}
