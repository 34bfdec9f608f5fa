// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package value

import (
	"math"
	"testing"
	"time"
)

func TestFormatValue(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6007000, time.UTC)
	for _, x := range []struct {
		name   string
		v      any
		format string
		want   string
	}{
		{"integer", int32(42), "D5", "00042"}, {"negative", int32(-42), "D5", "-00042"},
		{"hex", int32(-1), "x", "ffffffff"}, {"hex width", uint8(10), "X4", "000A"},
		{"grouped", 1234567.891, "N1", "1,234,567.9"}, {"fixed", 2.5, "F0", "3"}, {"money", -3.5, "C", "($3.50)"},
		{"percent", 0.1234, "P", "12.34%"}, {"exponent", 12345.678, "E2", "1.23E+004"},
		{"custom", 7.5, "000.00", "007.50"}, {"custom optional", 7.5, "#.##", "7.5"},
		{"custom sections", -2.0, "0;(0)", "(2)"}, {"literal", int32(5), "0 MB", "5 MB"},
		{"round trip date", DateTime{at}, "o", "2026-01-02T03:04:05.0060070Z"},
		{"long date", DateTime{at}, "D", "Friday, January 2, 2026"}, {"custom date", DateTime{at}, "yy.M.d h:mm tt 'q'",
			"26.1.2 3:04 AM q"},
		{"span", TimeSpan(26*time.Hour + 3*time.Second), "", "1.02:00:03"},
		{"span custom", TimeSpan(90 * time.Second), `mm\:ss`, "01:30"},
		{"guid", Guid("0f8fad5b-d9cb-469f-a165-70867728950e"), "N", "0f8fad5bd9cb469fa16570867728950e"},
	} {
		t.Run(x.name, func(t *testing.T) {
			got, err := FormatValue(x.v, x.format)
			if err != nil || got != x.want {
				t.Errorf("got %q, %v; want %q", got, err, x.want)
			}
		})
	}
}

func TestLike(t *testing.T) {
	for _, x := range []struct {
		text, pattern string
		want          bool
	}{
		{"abc", "*", true}, {"abc", "a*c", true}, {"abc", "A?C", true}, {"abc", "a", false}, {"a[c", "a`[c", true},
		{"abc", "[a-b]bc", true}, {"abc", "[!a]bc", true}, {"", "*", true}, {"", "?", false}, {"a]", "a]", true},
		{"aab", "*ab", true},
	} {
		if got := Like(x.text, x.pattern, false); got != x.want {
			t.Errorf("%q like %q: %t", x.text, x.pattern, got)
		}
	}
}

func TestArithmetic(t *testing.T) {
	for _, x := range []struct {
		name string
		f    func(a, b any) (any, error)
		a, b any
		want any
	}{
		{"int overflow", Add, int32(math.MaxInt32), int32(1), float64(1 << 31)},
		{"long overflow", Add, int64(math.MaxInt64), int64(1), float64(math.MaxInt64)},
		{"exact division", Div, int32(6), int32(3), int32(2)}, {"inexact", Div, int32(1), int32(4), 0.25},
		{"least by -1", Div, int32(math.MinInt32), int32(-1), float64(1 << 31)},
		{"least mod -1", Mod, int64(math.MinInt64), int64(-1), int64(0)}, {"text", Add, "a", int32(1), "a1"},
		{"number and text", Add, int32(1), "0x10", int32(17)}, {"null", Add, nil, int32(3), int32(3)},
		{"bool", Add, true, true, int32(2)}, {"char", Add, Char('a'), int32(1), int32(98)},
		{"repeat", Mul, "ab", int32(2), "abab"}, {"product overflow", Mul, int64(math.MaxInt64), int64(2),
			float64(math.MaxInt64) * 2},
	} {
		t.Run(x.name, func(t *testing.T) {
			got, err := x.f(x.a, x.b)
			if err != nil || got != x.want {
				t.Errorf("got %v (%T), %v; want %v (%T)", got, got, err, x.want, x.want)
			}
		})
	}
	for _, bad := range []func() (any, error){
		func() (any, error) { return Div(int32(1), int32(0)) }, func() (any, error) {
			return Mul("x", int32(math.MaxInt32))
		},
		func() (any, error) { return Sub(NewArray(int32(1)), int32(1)) }, func() (any, error) {
			return Add(int32(1), "x")
		},
	} {
		if v, err := bad(); err == nil {
			t.Errorf("no error, but %v", v)
		}
	}
}

func TestHash(t *testing.T) {
	h := &Hash{Ordered: true}
	h.Set("B", 1)
	h.Set("a", 2)
	h.Set("b", 3) // the same key, spelled otherwise
	if v, _ := h.Get("B"); v != 3 || h.Len() != 2 || h.Keys()[0] != "B" {
		t.Errorf("got %v %d %v", v, h.Len(), h.Keys())
	}
	h.Insert(0, "z", 9)
	if v, _ := h.At(0); v != 9 {
		t.Errorf("first is %v", v)
	}
	for i := range 100 {
		h.Set(int32(i), i)
	}
	for i := range 99 {
		h.Remove(int32(i))
	}
	if v, _ := h.Get(int32(99)); v != 99 || h.Len() != 4 || len(h.Values()) != 4 {
		t.Errorf("got %v, %d entries", v, h.Len())
	}
	for _, k := range []any{nil, math.NaN(), NewArray(), TimeSpan(1), DateTime{}, &Type{"X"}} {
		h.Set(k, "v") // no key may panic
	}
}

func TestDates(t *testing.T) {
	for _, s := range []string{"2026-01-02", "2026-01-02T03:04:05Z", "1/2/2026", "1/2/2026 3:04 PM", "January 2, 2026",
		"2026-01-02 03:04:05"} {
		if _, ok := parseDate(s); !ok {
			t.Errorf("%q is not read", s)
		}
	}
	if d := FromTicks(0); d.Year() != 1 || d.Ticks() != 0 {
		t.Errorf("ticks 0 are %v, %d", d, d.Ticks())
	}
	if d, ok := ParseExact("02.01.2026 13:05", "dd.MM.yyyy HH:mm"); !ok || d.Month() != time.January || d.Hour() != 13 {
		t.Errorf("got %v", d)
	}
	if s, ok := parseSpan("-1.02:03:04.5"); !ok || s != -(26*time.Hour+3*time.Minute+4500*time.Millisecond) {
		t.Errorf("got %v", s)
	}
}

func FuzzFormat(f *testing.F) {
	for _, s := range []string{"{0}", "{0,5:N2}", "{{}}", "{0:yyyy-MM-dd'x}", "{1:#,##0.00;(0)}", "{0:D99}", "{"} {
		f.Add(s, int64(42))
	}
	f.Fuzz(func(_ *testing.T, s string, n int64) {
		for _, v := range []any{n, float64(n) / 3, DateTime{time.Unix(n%1e10, 0)}, TimeSpan(n), "x"} {
			_, _ = Format(s, []any{v, v}) // must not panic
		}
	})
}
