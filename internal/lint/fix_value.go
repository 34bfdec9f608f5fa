// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var fixPatterns = struct{ plain, word *regexp.Regexp }{
	plain: regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*$`),
	word:  regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|y|n|null)$`), // not strings in YAML 1.1
}

// quote formats a string.
func quote(s string, asJSON bool) string {
	switch {
	case asJSON:
		return strconv.Quote(s)
	case fixPatterns.plain.MatchString(s) && !fixPatterns.word.MatchString(s):
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// keys returns the keys of a map in the conventional order.
func keys(m map[string]any) []string {
	order := []string{"key", "operator", "value", "values", "effect"}
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		i, j := slices.Index(order, a), slices.Index(order, b)
		if i < 0 || j < 0 {
			return strings.Compare(a, b)
		}
		return i - j
	})
}

// flow formats a value on one line.
func flow(v any, asJSON bool) string {
	switch v := v.(type) {
	case string:
		return quote(v, asJSON)
	case map[string]any:
		var parts []string
		for _, k := range keys(v) {
			parts = append(parts, flowEntry(k, v[k], asJSON))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, flow(e, asJSON))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(b)
}

func flowEntry(key string, v any, asJSON bool) string {
	return quote(key, asJSON) + ": " + flow(v, asJSON)
}

// blockEntry formats a key and its value as lines.
func blockEntry(prefix, key string, v any) []string {
	head := prefix + quote(key, false) + ":"
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			break
		}
		out := []string{head}
		for _, k := range keys(v) {
			out = append(out, blockEntry(prefix+"  ", k, v[k])...)
		}
		return out
	case []any:
		if len(v) == 0 {
			break
		}
		out := []string{head}
		for _, e := range v {
			out = append(out, blockItem(prefix, e)...)
		}
		return out
	}
	return []string{head + " " + flow(v, false)}
}

// blockItem formats an element of a list as lines.
func blockItem(prefix string, v any) []string {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		return []string{prefix + "- " + flow(v, false)}
	}
	var out []string
	for _, k := range keys(m) {
		out = append(out, blockEntry(prefix+"  ", k, m[k])...)
	}
	out[0] = prefix + "- " + strings.TrimPrefix(out[0], prefix+"  ")
	return out
}
