// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package value holds PowerShell's values and the rules by which they are
// converted, compared, computed with and written as text. It performs no I/O
// and imports only the standard library.
//
// A value is a Go any: nil is $null; bool, int32, int64, float64 and string are
// themselves; the smaller and unsigned integers of .NET are Go's of the same
// size; everything else is a type of this package, or an Opaque of another.
//
// Arrays, lists and hashtables are references, as in .NET: two variables may
// hold one. No type here is safe for concurrent use; an interpreter runs one
// script on one goroutine.
//
// Sources, read 2026-11: chapters 4 (types) and 6 (conversions) of the Windows
// PowerShell Language Specification,
// https://learn.microsoft.com/powershell/scripting/lang-spec/chapter-04, and
// about_Type_Conversion, about_Comparison_Operators, about_Arithmetic_Operators.
package value

import (
	"strings"
	"time"
)

// Char is System.Char.
type Char rune

// Array is a fixed-size .NET array. Elem is the element's type name without
// "System.", such as Object or Byte.
type Array struct {
	Items []any
	Elem  string
}

// NewArray returns an Object[] of the items.
func NewArray(items ...any) *Array { return &Array{Items: items, Elem: "Object"} }

// NewBytes returns a Byte[] with the bytes of b.
func NewBytes(b []byte) *Array {
	a := &Array{Items: make([]any, len(b)), Elem: "Byte"}
	for i, c := range b {
		a.Items[i] = c
	}
	return a
}

// NewStrings returns a String[].
func NewStrings(s []string) *Array {
	a := &Array{Items: make([]any, len(s)), Elem: "String"}
	for i, x := range s {
		a.Items[i] = x
	}
	return a
}

// List is a growable list: ArrayList, List[T], Queue, Stack…
type List struct {
	Items []any
	Type  string // full name, such as System.Collections.ArrayList
}

// DateTime is System.DateTime. Its Kind follows from the location: time.UTC is
// Utc, time.Local is Local, any other Unspecified.
type DateTime struct{ time.Time }

// TimeSpan is System.TimeSpan.
type TimeSpan time.Duration

// Guid is System.Guid in its canonical spelling.
type Guid string

// Version is System.Version; parts that were not given are -1.
type Version struct{ Major, Minor, Build, Revision int }

// Type is a .NET type used as a value.
type Type struct {
	Name string // full name: System.Int32
}

// Opaque is any other value: it has the name of its .NET type.
type Opaque interface{ TypeName() string }

// Texter is an Opaque with its own ToString.
type Texter interface{ Text() string }

// Prop is a property of an Object.
type Prop struct {
	Name  string
	Value any
}

// Object is an object with its own properties: PSCustomObject, and the
// results of cmdlets. Members that are not plain values (script properties and
// methods) are kept in Value as types of the interpreter.
type Object struct {
	Types []string // most derived first; empty is PSCustomObject
	Props []Prop
	Base  any    // the wrapped value, for a value extended by Add-Member
	Str   string // the result of ToString, if the type has one
	// Show names the properties that a table or a list shows, if the type
	// has a view in PowerShell's formatting files; List selects a list.
	Show []string
	List bool
}

// CustomType is the type name of an Object without one.
const CustomType = "System.Management.Automation.PSCustomObject"

// NewObject returns an Object of a type with the properties of name, value pairs.
func NewObject(typ string, pairs ...any) *Object {
	o := &Object{}
	if typ != "" {
		o.Types = []string{typ}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		o.Props = append(o.Props, Prop{pairs[i].(string), pairs[i+1]})
	}
	return o
}

// TypeName returns the object's most derived type.
func (o *Object) TypeName() string {
	if len(o.Types) > 0 {
		return o.Types[0]
	}
	if o.Base != nil {
		return TypeName(o.Base)
	}
	return CustomType
}

// Get returns a property's value.
func (o *Object) Get(name string) (any, bool) {
	for i := range o.Props {
		if strings.EqualFold(o.Props[i].Name, name) {
			return o.Props[i].Value, true
		}
	}
	return nil, false
}

// Set changes a property, adding it if it is absent.
func (o *Object) Set(name string, v any) {
	for i := range o.Props {
		if strings.EqualFold(o.Props[i].Name, name) {
			o.Props[i].Value = v
			return
		}
	}
	o.Props = append(o.Props, Prop{name, v})
}

// TypeName returns the full .NET name of a value's type.
func TypeName(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case bool:
		return "System.Boolean"
	case int32:
		return "System.Int32"
	case int64:
		return "System.Int64"
	case float64:
		return "System.Double"
	case float32:
		return "System.Single"
	case string:
		return "System.String"
	case Char:
		return "System.Char"
	case uint8:
		return "System.Byte"
	case int8:
		return "System.SByte"
	case int16:
		return "System.Int16"
	case uint16:
		return "System.UInt16"
	case uint32:
		return "System.UInt32"
	case uint64:
		return "System.UInt64"
	case *Array:
		return "System." + v.Elem + "[]"
	case *List:
		return v.Type
	case *Hash:
		if v.Ordered {
			return "System.Collections.Specialized.OrderedDictionary"
		}
		return "System.Collections.Hashtable"
	case DateTime:
		return "System.DateTime"
	case TimeSpan:
		return "System.TimeSpan"
	case Guid:
		return "System.Guid"
	case Version:
		return "System.Version"
	case *Type:
		return "System.RuntimeType"
	case Opaque:
		return v.TypeName()
	}
	return "System.Object"
}

// ShortName returns the last part of a type's name.
func ShortName(full string) string {
	if i := strings.IndexByte(full, '['); i > 0 && !strings.HasPrefix(full[i:], "[]") {
		return full[strings.LastIndexByte(full[:i], '.')+1:]
	}
	return full[strings.LastIndexByte(full, '.')+1:]
}

// Items returns the elements of a collection that a pipeline and foreach
// enumerate. Hashtables and strings are not enumerated.
func Items(v any) ([]any, bool) {
	switch v := v.(type) {
	case *Array:
		return v.Items, true
	case *List:
		return v.Items, true
	case *Object:
		if v.Base != nil {
			return Items(v.Base)
		}
	case Enumerable:
		return v.Enumerate(), true
	}
	return nil, false
}

// Enumerable is an Opaque that a pipeline enumerates.
type Enumerable interface{ Enumerate() []any }

// Collapse returns a list of results as one value: $null for an empty list, the
// item itself for one, and an array for more.
func Collapse(items []any) any {
	switch len(items) {
	case 0:
		return nil
	case 1:
		return items[0]
	}
	return NewArray(items...)
}

// Unwrap takes a value out of an Object that only extends it.
func Unwrap(v any) any {
	for {
		o, ok := v.(*Object)
		if !ok || o.Base == nil {
			return v
		}
		v = o.Base
	}
}
