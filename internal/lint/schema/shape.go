// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// shape is a Go type as its values are written in JSON. Reflection takes longer
// than a whole check, so each type is looked at once.
type shape struct {
	kind  reflect.Kind                // of the type that pointers lead to
	reads func(raw any) (want string) // the form that a type with its own JSON decoder accepts; nil for other types
	check func(*walk, tree.Value)     // further checks; may be nil

	fields  func() map[string]*shape // of a struct, by their names in JSON
	element func() *shape            // of a map or a slice
}

// shapes has the shapes of types. It may be used concurrently.
type shapes struct {
	checks map[reflect.Type]func(*walk, tree.Value)
	known  sync.Map // *shape by reflect.Type
}

// of returns the shape of a type.
func (s *shapes) of(t reflect.Type) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if known, ok := s.known.Load(t); ok {
		return known.(*shape)
	}
	made := &shape{kind: t.Kind(), reads: reader(t), check: s.checks[t]}
	// Types may contain themselves.
	switch t.Kind() {
	case reflect.Struct:
		made.fields = sync.OnceValue(func() map[string]*shape { return s.fieldsOf(t) })
	case reflect.Map, reflect.Slice:
		made.element = sync.OnceValue(func() *shape { return s.of(t.Elem()) })
	}
	known, _ := s.known.LoadOrStore(t, made)
	return known.(*shape)
}

// fieldsOf returns the shapes of a struct's fields by their names in JSON.
func (s *shapes) fieldsOf(t reflect.Type) map[string]*shape {
	out := map[string]*shape{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && (name == "" || options == "inline"):
			maps.Copy(out, s.of(f.Type).fields())
		case name != "":
			out[name] = s.of(f.Type)
		}
	}
	return out
}

// reader returns a function that describes a value which a type takes that reads
// its own JSON, if the type does not take the given one. It returns nil for types
// that leave the reading to encoding/json.
func reader(t reflect.Type) func(raw any) (want string) {
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return wants("a quantity such as 500m or 1Gi", isQuantity)
	case reflect.TypeFor[intstr.IntOrString]():
		return wants("a number or a string", func(raw any) bool {
			_, isText := raw.(string)
			return isText || scalar(raw, reflect.Int32) == ""
		})
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return wants("a time such as 2026-01-02T15:04:05Z", parses(func(s string) error {
			_, err := time.Parse(time.RFC3339, s)
			return err
		}))
	case reflect.TypeFor[metav1.Duration]():
		return wants("a duration such as 5m30s", parses(func(s string) error {
			_, err := time.ParseDuration(s)
			return err
		}))
	case reflect.TypeFor[[]byte]():
		return wants("a string in base64", parses(func(s string) error {
			_, err := base64.StdEncoding.DecodeString(s)
			return err
		}))
	}
	if t.Kind() == reflect.Interface || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		// This package does not check the content of these types.
		return func(any) string { return "" }
	}
	return nil
}

// wants returns a reader of a type that takes the values for which ok is true.
func wants(description string, ok func(raw any) bool) func(raw any) string {
	return func(raw any) string {
		if ok(raw) {
			return ""
		}
		return description
	}
}

// parses returns a function that reports whether a value is a string without error.
func parses(parse func(string) error) func(raw any) bool {
	return func(raw any) bool {
		s, isText := raw.(string)
		return isText && parse(s) == nil
	}
}

func isQuantity(raw any) bool {
	if s, ok := raw.(string); ok {
		_, err := resource.ParseQuantity(s)
		return err == nil
	}
	_, ok := number(raw)
	return ok
}
