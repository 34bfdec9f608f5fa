// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package schema checks objects of Kubernetes' own kinds as an API server reads
// them: whether the version is served, and whether each field exists and has a
// value of its type. kubectl requests this strict decoding (fieldValidation:
// Strict), and the API server then refuses the object.
//
// The schema is the Go types of k8s.io/api that this program is built with, by
// reflection: the API server itself decodes into them, and clients link them
// anyway. Custom resources have other schemas and are left alone.
package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// The codes of the findings.
const (
	codeVersion = "WIN801"
	codeField   = "WIN802"
	codeType    = "WIN803"
)

// Finds reports whether a code is one of this package's.
func Finds(code string) bool { return strings.HasPrefix(code, "WIN80") }

// Missing reports whether a code is the code for missing required fields.
func Missing(code string) bool { return code == codeMissing }

// Checker checks objects. It may be used concurrently.
type Checker struct {
	version policy.Version
	served  served
	shapes  *shapes
}

// New returns a Checker for a version of Kubernetes; 0 means the current one.
func New(v policy.Version) *Checker {
	checks := merge(merge(merge(newChecks(), podConstraints()), constraints()), groupConstraints())
	return &Checker{version: v, served: newServed(), shapes: &shapes{checks: checks}}
}

// Check returns the errors for which the API server would refuse an object.
func (c *Checker) Check(object tree.Value) []policy.Finding {
	kind, version := object.Find("kind").Str(), object.Find("apiVersion").Str()
	w := walk{checker: c, root: object, scope: object.Path()}
	if t := w.version(object, version, kind); t != nil {
		w.name(object, kind)
		w.value(object, w.checker.shapes.of(t), nil)
	} else if kind == "CustomResourceDefinition" && version == "apiextensions.k8s.io/v1" {
		w.definition(object)
	}
	return w.out
}

// CheckPatch is Check for an object that is not complete.
func (c *Checker) CheckPatch(object tree.Value) []policy.Finding {
	return slices.DeleteFunc(c.Check(object), func(f policy.Finding) bool { return f.Code > codeType })
}

// maxFindings bounds the findings about one object: it may have a million invalid
// keys.
const maxFindings = 100

// walk is one pass over an object.
type walk struct {
	checker *Checker
	root    tree.Value
	scope   tree.Path
	out     []policy.Finding
}

func (w *walk) report(code string, v tree.Value, fix, format string, args ...any) {
	w.add(policy.Error, code, v, fix, format, args...)
}

func (w *walk) add(severity policy.Severity, code string, v tree.Value, fix, format string, args ...any) {
	if len(w.out) >= maxFindings {
		return
	}
	path := v.Path()
	if w.checker.version > current {
		severity = policy.Warning // a newer Kubernetes may have fields that these types lack
	}
	w.out = append(w.out, policy.Finding{
		Code:     code,
		Severity: severity,
		Path:     path,
		Field:    path.String(),
		Missing:  !v.Set(),
		Message:  fmt.Sprintf(format, args...),
		Fix:      fix,
		Scope:    w.scope,
	})
}

// value checks a value against the type that it is decoded into. The parent is
// the struct around it.
func (w *walk) value(v tree.Value, s, parent *shape) {
	raw := v.Raw()
	if raw == nil {
		return // the zero value of each type
	}
	if s.reads != nil {
		if want := s.reads(raw); want != "" {
			w.mistyped(v, want)
		}
		return
	}
	switch s.kind {
	case reflect.Struct:
		w.object(v, s, parent)
	case reflect.Map:
		if _, ok := raw.(map[string]any); !ok {
			w.mistyped(v, "a mapping")
			return
		}
		for _, entry := range v.Entries() {
			w.value(entry, s.element(), nil)
		}
	case reflect.Slice:
		if _, ok := raw.([]any); !ok {
			w.mistyped(v, "a list")
			return
		}
		for _, item := range v.Items() {
			w.value(item, s.element(), parent)
		}
	default:
		if want := scalar(raw, s.kind); want != "" {
			w.mistyped(v, want)
		}
	}
}

// object checks the fields of a struct.
func (w *walk) object(v tree.Value, s, parent *shape) {
	if _, ok := v.Raw().(map[string]any); !ok {
		w.mistyped(v, "a mapping")
		return
	}
	fields := s.fields()
	for _, entry := range v.Entries() {
		key := entry.Key()
		if field, ok := fields[key]; ok {
			w.value(entry, field, s)
			continue
		}
		if template(key) || strings.HasPrefix(key, "$") {
			continue
		}
		w.unknown(v, key, fields, parent)
	}
	if s.check != nil {
		s.check(w, v)
	}
}

func (w *walk) unknown(v tree.Value, key string, fields map[string]*shape, parent *shape) {
	if len(w.out) >= maxFindings {
		return // the suggestion takes time
	}
	fix := "remove it; kubectl explain lists the fields"
	if near := nearest(key, slices.Sorted(maps.Keys(fields))); near != "" {
		fix = "write " + near
	} else if where := w.elsewhere(key, fields, parent); where != "" {
		fix = "move it: " + where + " has a field of this name"
	}
	where := cmp.Or(v.Path().String(), "the object")
	w.report(codeField, v.Get(key), fix, "%s has no field %q: the API server refuses it (unknown field)", where, key)
}

// elsewhere names a neighbour that has a field: the struct around it, or one in it.
func (w *walk) elsewhere(key string, fields map[string]*shape, parent *shape) string {
	if parent != nil {
		if _, ok := parent.fields()[key]; ok {
			return "the mapping around it"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		s := fields[name]
		for s.kind == reflect.Slice && s.reads == nil {
			s = s.element()
		}
		if s.kind == reflect.Struct && name != "status" && name != "metadata" {
			if _, ok := s.fields()[key]; ok {
				return name
			}
		}
	}
	return ""
}

func (w *walk) mistyped(v tree.Value, want string) {
	if s, ok := v.Raw().(string); ok && template(s) {
		return
	}
	fix := "write " + want
	if want == text {
		switch v.Raw().(type) {
		case map[string]any, []any:
		default:
			fix = fmt.Sprintf("quote it: %q", fmt.Sprint(v.Raw()))
		}
	}
	w.report(codeType, v, fix, "%s is %s; it must be %s", v.Path(), describe(v.Raw()), want)
}

// describe returns a readable description of a value.
func describe(raw any) string {
	switch x := raw.(type) {
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case string:
		return fmt.Sprintf("the string %q", clip(x))
	case bool:
		return fmt.Sprintf("the boolean %v (in YAML, yes, no, on and off are booleans)", x)
	}
	return fmt.Sprintf("the number %v", raw)
}

// clip bounds the text that a message repeats from the input.
func clip(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// text describes a value of a field with a text.
const text = "a string"

// scalar describes a value that a basic type takes, if it does not take this one.
func scalar(raw any, k reflect.Kind) string {
	n, isNumber := number(raw)
	switch k {
	case reflect.String:
		if _, ok := raw.(string); !ok {
			return text
		}
	case reflect.Bool:
		if _, ok := raw.(bool); !ok {
			return "true or false"
		}
	case reflect.Int32:
		if !isNumber || n != math.Trunc(n) || n < math.MinInt32 || n > math.MaxInt32 {
			return "a whole number of 32 bits"
		}
	case reflect.Int, reflect.Int64:
		if !isNumber || n != math.Trunc(n) {
			return "a whole number"
		}
	case reflect.Float32, reflect.Float64:
		if !isNumber {
			return "a number"
		}
	}
	return ""
}

func number(raw any) (float64, bool) {
	switch n := raw.(type) {
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case float64:
		return n, true
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	}
	return 0, false
}

// template reports whether a text is to be replaced by a program before it is
// applied: ${VAR}, {{ .Values.x }}, #{Token}#, __TOKEN__, <value>, VALUE,
// APP_NAME-web, REPLACEME-web, ($binding).
func template(s string) bool {
	for _, mark := range []string{"${", "$(", "($", "{{", "#{", "__", "@@", "%%"} {
		if strings.Contains(s, mark) {
			return true
		}
	}
	_, open, _ := strings.Cut(s, "<")
	if strings.Contains(open, ">") || strings.HasPrefix(s, "$") || token(s) {
		return true
	}
	constant := len(s) > 3 // RWO is an error
	for _, r := range s {
		constant = constant && (r >= 'A' && r <= 'Z' || r == '_')
	}
	return constant
}

// token reports whether a text has a word in capitals that stands for another one:
// APP_NAME, REPLACEME, [REDACTED KEY].
func token(s string) bool {
	capitals := func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') }
	for word := range strings.FieldsFuncSeq(s, capitals) {
		word = strings.Trim(word, "_")
		begins := func(with string) bool { return strings.HasPrefix(word, with) }
		if strings.Contains(word, "_") ||
			slices.ContainsFunc([]string{"REPLACE", "CHANGEME", "PLACEHOLDER", "REDACTED", "TODO"}, begins) {
			return true
		}
	}
	return false
}
