// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package syntax

import "reflect"

// walk calls f for a node and then for those inside of it, in the order of the
// text; f returns false to leave a node's inside out.
func walk(n Node, f func(Node) bool) {
	walkValue(reflect.ValueOf(n), f)
}

// walkValue follows the fields of the node types. Reflection keeps walk
// complete when a node type gains a field.
func walkValue(v reflect.Value, f func(Node) bool) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() {
			walkValue(v.Elem(), f)
		}
	case reflect.Pointer:
		if v.IsNil() || v.Type() == reflect.TypeFor[*Source]() {
			return
		}
		if n, ok := reflect.TypeAssert[Node](v); ok && !f(n) {
			return
		}
		walkValue(v.Elem(), f)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[Span]() {
			return
		}
		for _, field := range v.Fields() {
			walkValue(field, f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walkValue(v.Index(i), f)
		}
	}
}
