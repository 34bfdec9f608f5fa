// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// constraint checks a struct as the API server does.
type constraint func(*walk, tree.Value)

// all makes one check of several.
func all(checks ...constraint) constraint {
	return func(w *walk, v tree.Value) {
		for _, c := range checks {
			c(w, v)
		}
	}
}

// needs requires fields with a non-empty text.
func needs(fields ...string) constraint {
	return func(w *walk, v tree.Value) { w.missing(v, fields...) }
}

// fills requires a list or a mapping that is not empty.
func fills(field string) constraint {
	return func(w *walk, v tree.Value) {
		if v.Find(field).Len() == 0 {
			w.report(codeMissing, v.Get(field), "add one", "%s needs %s", v.Path(), field)
		}
	}
}

// words requires one of some words, or an empty value.
func words(field string, allowed ...string) constraint {
	allowed = append(allowed, "")
	return func(w *walk, v tree.Value) { w.oneOf(v.Find(field), allowed...) }
}

// listed requires each item of a list to be one of some words.
func listed(field string, allowed ...string) constraint {
	return func(w *walk, v tree.Value) {
		for _, item := range v.Find(field).Items() {
			w.oneOf(item, allowed...)
		}
	}
}

// between requires a number in a range, if set.
func between(field string, least, most float64) constraint {
	return func(w *walk, v tree.Value) {
		if n, ok := number(v.Find(field).Raw()); ok && (n < least || n > most) {
			w.invalid(v.Get(field), "write a number in the range", "%v is not in %.0f to %.0f", n, least, most)
		}
	}
}

// atLeast requires numbers that are not below a limit, if set.
func atLeast(least float64, fields ...string) constraint {
	return func(w *walk, v tree.Value) {
		for _, field := range fields {
			if n, ok := number(v.Find(field).Raw()); ok && n < least {
				w.invalid(v.Get(field), fmt.Sprintf("write %.0f or more", least), "%v is less than %.0f", n, least)
			}
		}
	}
}

// format requires texts that pass valid, if set.
func format(valid func(string) []string, fields ...string) constraint {
	return func(w *walk, v tree.Value) {
		for _, field := range fields {
			if at := v.Find(field); at.Set() {
				w.format(at, valid)
			}
		}
	}
}

// formats is format for the items of a list.
func formats(valid func(string) []string, field string) constraint {
	return func(w *walk, v tree.Value) {
		for _, item := range v.Find(field).Items() {
			w.format(item, valid)
		}
	}
}

// labelKey requires a text in the form of a label key.
func labelKey(field string) constraint {
	return func(w *walk, v tree.Value) {
		if key := v.Find(field).Str(); key != "" {
			w.key(v.Get(field), key)
		}
	}
}

// oneOfFields requires exactly one of some fields.
func oneOfFields(what string, fields ...string) constraint {
	return func(w *walk, v tree.Value) {
		switch there := some(v, fields...); {
		case len(there) == 0:
			names := strings.Join(fields, ", ")
			w.report(codeMissing, v.Get(fields[0]), "add one of "+names, "%s needs one of %s", what, names)
		case len(there) > 1:
			w.report(codeExclusive, v.Get(there[1]), "remove one", "%s has one of %s, and not both", what,
				strings.Join(there, " and "))
		}
	}
}

// without forbids fields if another field does not have an allowed value.
func without(why string, allowed func(tree.Value) bool, fields ...string) constraint {
	return func(w *walk, v tree.Value) {
		for _, field := range fields {
			if at := v.Find(field); at.Set() && !allowed(v) {
				w.report(codeExclusive, at, "remove it", "%s: %s", at.Path(), why)
			}
		}
	}
}

// merge adds checks to the checks of the same types.
func merge(into, more map[reflect.Type]func(*walk, tree.Value)) map[reflect.Type]func(*walk, tree.Value) {
	for t, c := range more {
		if before := into[t]; before != nil {
			into[t] = all(before, c)
		} else {
			into[t] = c
		}
	}
	return into
}

// positive requires a quantity above 0, if set.
func positive(w *walk, v tree.Value) {
	if q, ok := quantity(v); ok && q.Sign() <= 0 {
		w.invalid(v, "write more than 0", "%s is not more than 0", q.String())
	}
}

// percentages requires whole numbers, or percentages such as 25%.
func percentages(fields ...string) constraint {
	return func(w *walk, v tree.Value) {
		for _, field := range fields {
			at := v.Find(field)
			if n, ok := number(at.Raw()); ok && n < 0 {
				w.invalid(at, "write 0 or more", "%v is negative", n)
			}
			if s := at.Str(); s != "" && !percentage(s) {
				w.invalid(at, "write a number, or a percentage such as 25%", "%q is neither a number nor a percentage",
					clip(s))
			}
		}
	}
}

func percentage(s string) bool {
	digits, ok := strings.CutSuffix(s, "%")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// localPath rejects texts that are not a path below a folder.
func localPath(s string) []string {
	switch {
	case strings.HasPrefix(s, "/"):
		return []string{"must be a relative path"}
	case slices.Contains(strings.Split(s, "/"), ".."):
		return []string{"must not contain '..'"}
	}
	return nil
}
