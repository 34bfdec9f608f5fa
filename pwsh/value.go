// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package pwsh

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// fromGo returns the PowerShell value of a Go value.
func fromGo(v any) any {
	switch v := v.(type) {
	case nil, bool, string, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64:
		return v
	case int:
		if v < math.MinInt32 || v > math.MaxInt32 {
			return int64(v)
		}
		return int32(v)
	case []byte:
		return value.NewBytes(v)
	case []string:
		return value.NewStrings(v)
	case []any:
		items := make([]any, len(v))
		for i, x := range v {
			items[i] = fromGo(x)
		}
		return value.NewArray(items...)
	case map[string]any:
		h := &value.Hash{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			h.Set(k, fromGo(v[k]))
		}
		return h
	case time.Time:
		return value.DateTime{Time: v}
	case time.Duration:
		return value.TimeSpan(v)
	}
	return &interp.Instance{
		Class: &interp.Class{Name: "System.Object"},
		Data:  object{v},
		Str:   func() string { return fmt.Sprint(v) },
	}
}

// toGo returns the Go value of a PowerShell value.
func toGo(r *interp.Runner, v any) any {
	switch v := value.Unwrap(v).(type) {
	case nil, bool, string, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64:
		return v
	case value.DateTime:
		return v.Time
	case value.TimeSpan:
		return time.Duration(v)
	case *value.Array:
		if b, err := value.Bytes(v); v.Elem == "Byte" && err == nil {
			return b
		}
		return toGoItems(r, v.Items)
	case *value.Hash:
		m := make(map[string]any, v.Len())
		for _, k := range v.Keys() {
			x, _ := v.Get(k)
			m[value.String(k)] = toGo(r, x)
		}
		return m
	case *value.Object:
		m := make(map[string]any, len(v.Props))
		for _, p := range v.Props {
			if x, err := r.Property(v, p.Name); err == nil {
				m[p.Name] = toGo(r, x)
			}
		}
		return m
	case *interp.Instance:
		if o, ok := v.Data.(object); ok {
			return o.v
		}
		return v.Text()
	default:
		if items, ok := value.Items(v); ok {
			return toGoItems(r, items)
		}
		return r.Text(v)
	}
}

func toGoItems(r *interp.Runner, items []any) []any {
	out := make([]any, len(items))
	for i, v := range items {
		out[i] = toGo(r, v)
	}
	return out
}
