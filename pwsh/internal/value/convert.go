// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package value

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ConvertError is the error of a conversion.
type ConvertError struct {
	From any
	To   string // full type name
	Why  string
}

// Error is PowerShell's own message.
func (e *ConvertError) Error() string {
	why := ""
	if e.Why != "" {
		why = " Error: \"" + e.Why + "\""
	}
	return fmt.Sprintf("Cannot convert value \"%s\" to type \"%s\".%s", String(e.From), e.To, why)
}

// Bool returns a value's truth.
func Bool(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case int32:
		return v != 0
	case int64:
		return v != 0
	case float64:
		return v != 0
	case uint8:
		return v != 0
	case Char:
		return v != 0
	case *Array:
		return truthOfItems(v.Items)
	case *List:
		return truthOfItems(v.Items)
	case *Object:
		if v.Base != nil {
			return Bool(v.Base)
		}
		return true
	}
	if f, ok := asFloat(v); ok {
		return f != 0
	}
	if s, ok := v.(interface{ IsPresent() bool }); ok {
		return s.IsPresent()
	}
	return true
}

// truthOfItems: an empty collection is false, one item stands for itself, and
// more are true.
func truthOfItems(items []any) bool {
	switch len(items) {
	case 0:
		return false
	case 1:
		if sub, ok := Items(items[0]); ok {
			return len(sub) > 0
		}
		return Bool(items[0])
	}
	return true
}

// String returns a value as text, as in "$v".
func String(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int32:
		return strconv.Itoa(int(v))
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return FormatFloat(v)
	case float32:
		return formatShortest(float64(v), 32)
	case Char:
		return string(rune(v))
	case uint8:
		return strconv.Itoa(int(v))
	case uint64:
		return strconv.FormatUint(v, 10)
	case int8, int16, uint16, uint32:
		return fmt.Sprint(v)
	case *Array:
		return Join(v.Items, " ")
	case *List:
		return Join(v.Items, " ")
	case DateTime:
		return FormatDate(v.Time, "MM/dd/yyyy HH:mm:ss") // invariant culture, as string expansion uses
	case TimeSpan:
		return FormatSpan(time.Duration(v), "c")
	case Guid:
		return string(v)
	case Version:
		return v.String()
	case *Type:
		return displayType(v.Name)
	case *Object:
		return v.text()
	case Texter:
		return v.Text()
	}
	return TypeName(v)
}

// displayType returns the accelerator, as "$([int])" does.
func displayType(full string) string {
	for _, a := range accelerators {
		if a.full == full {
			return a.short
		}
	}
	return full
}

func (o *Object) text() string {
	if o.Base != nil {
		return String(o.Base)
	}
	if o.Str != "" || len(o.Types) > 0 && o.Types[0] != CustomType {
		if o.Str == "" {
			return o.Types[0]
		}
		return o.Str
	}
	if len(o.Props) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("@{")
	for i, p := range o.Props {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(p.Name + "=")
		if inner, ok := p.Value.(*Object); ok && inner == o {
			continue
		}
		if inner, ok := p.Value.(*Object); ok && len(inner.Types) == 0 && inner.Base == nil {
			continue // PowerShell shows nested custom objects as an empty string
		}
		if a, ok := p.Value.(*Array); ok {
			b.WriteString(TypeName(a))
			continue
		}
		b.WriteString(String(p.Value))
	}
	b.WriteString("}")
	return b.String()
}

// Join concatenates items, separated by sep.
func Join(items []any, sep string) string {
	var b strings.Builder
	for i, x := range items {
		if i > 0 {
			b.WriteString(sep)
		}
		if _, nested := Items(x); nested {
			b.WriteString(TypeName(x))
			continue
		}
		b.WriteString(String(x))
	}
	return b.String()
}

// FormatFloat returns a double as .NET Core writes it: the shortest text that reads
// back as the same number.
func FormatFloat(f float64) string { return formatShortest(f, 64) }

func formatShortest(f float64, bits int) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	a := math.Abs(f)
	if a != 0 && (a < 1e-4 || a >= 1e15) {
		s := strconv.FormatFloat(f, 'E', -1, bits)
		// .NET writes at least two digits of exponent, Go too.
		return s
	}
	return strconv.FormatFloat(f, 'f', -1, bits)
}

// String writes the given parts.
func (v Version) String() string {
	s := fmt.Sprintf("%d.%d", v.Major, v.Minor)
	if v.Build >= 0 {
		s += fmt.Sprintf(".%d", v.Build)
		if v.Revision >= 0 {
			s += fmt.Sprintf(".%d", v.Revision)
		}
	}
	return s
}

// ParseVersion reads two to four parts.
func ParseVersion(s string) (Version, bool) {
	parts := strings.Split(strings.TrimSpace(s), ".")
	if len(parts) < 2 || len(parts) > 4 {
		return Version{}, false
	}
	n := [4]int{-1, -1, -1, -1}
	for i, p := range parts {
		x, err := strconv.ParseInt(p, 10, 32)
		if err != nil || x < 0 {
			return Version{}, false
		}
		n[i] = int(x)
	}
	return Version{n[0], n[1], n[2], n[3]}, true
}

// compare orders versions.
func (v Version) compare(w Version) int {
	for _, d := range []int{v.Major - w.Major, v.Minor - w.Minor, v.Build - w.Build, v.Revision - w.Revision} {
		if d != 0 {
			return sign(d)
		}
	}
	return 0
}

func sign(d int) int {
	switch {
	case d < 0:
		return -1
	case d > 0:
		return 1
	}
	return 0
}

// asInt returns an integer value's number.
func asInt(v any) (int64, bool) {
	switch v := v.(type) {
	case int32:
		return int64(v), true
	case int64:
		return v, true
	case uint8:
		return int64(v), true
	case int8:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case uint64:
		if v <= math.MaxInt64 {
			return int64(v), true
		}
	}
	return 0, false
}

// asFloat is any numeric value's number.
func asFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case float32:
		return float64(v), true
	case uint64:
		return float64(v), true
	}
	if i, ok := asInt(v); ok {
		return float64(i), true
	}
	return 0, false
}

// IsNumber reports whether a value is of a numeric type.
func IsNumber(v any) bool {
	_, ok := asFloat(v)
	return ok
}

// Number converts a value to a number as arithmetic does: text is parsed, $true is
// 1, $null is 0.
func Number(v any) (any, error) {
	switch v := Unwrap(v).(type) {
	case nil:
		return int32(0), nil
	case bool:
		if v {
			return int32(1), nil
		}
		return int32(0), nil
	case Char:
		return int32(v), nil
	case uint8:
		return int32(v), nil
	case int8:
		return int32(v), nil
	case int16:
		return int32(v), nil
	case uint16:
		return int32(v), nil
	case uint32:
		return int64(v), nil
	case uint64:
		if v <= math.MaxInt64 {
			return int64(v), nil
		}
		return float64(v), nil
	case float32:
		return float64(v), nil
	case int32, int64, float64:
		return v, nil
	case string:
		if n, ok := parseNumber(v); ok {
			return n, nil
		}
		return nil, &ConvertError{v, "System.Int32", "Input string was not in a correct format."}
	case interface{ IntValue() int64 }:
		return v.IntValue(), nil
	case interface{ IsPresent() bool }:
		if v.IsPresent() {
			return int32(1), nil
		}
		return int32(0), nil
	default:
		return nil, &ConvertError{v, "System.Int32", ""}
	}
}

// parseNumber reads text as a number: decimal with sign, point and exponent,
// or hexadecimal.
func parseNumber(s string) (any, bool) {
	s = strings.TrimSpace(s)
	if s == "" {
		return int32(0), true
	}
	t := strings.TrimLeft(s, "+-")
	if len(t) > 2 && t[0] == '0' && (t[1] == 'x' || t[1] == 'X') {
		n, err := strconv.ParseInt(strings.Replace(strings.ToLower(s), "0x", "", 1), 16, 64)
		if err != nil {
			return nil, false
		}
		return shrink(n), true
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return shrink(n), true
	}
	if strings.ContainsAny(s, "xXpP_iInN") {
		return nil, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, ",", ""), 64)
	return f, err == nil
}

// shrink returns the smallest of int32 and int64 that holds n.
func shrink(n int64) any {
	if n >= math.MinInt32 && n <= math.MaxInt32 {
		return int32(n)
	}
	return n
}

// Float converts to a double.
func Float(v any) (float64, error) {
	n, err := Number(v)
	if err != nil {
		return 0, &ConvertError{v, "System.Double", "Input string was not in a correct format."}
	}
	f, _ := asFloat(n)
	return f, nil
}

// intRange bounds an integer type.
type intRange struct{ lo, hi float64 }

var intRanges = map[string]intRange{
	"System.Byte": {0, math.MaxUint8}, "System.SByte": {math.MinInt8, math.MaxInt8},
	"System.Int16": {math.MinInt16, math.MaxInt16}, "System.UInt16": {0, math.MaxUint16},
	"System.Int32": {math.MinInt32, math.MaxInt32}, "System.UInt32": {0, math.MaxUint32},
	"System.Int64": {math.MinInt64, math.MaxInt64}, "System.UInt64": {0, math.MaxUint64},
}

// Int converts to an integer type by its full name, rounding half to even.
func Int(v any, typ string) (any, error) {
	if n, ok := v.(int32); ok && typ == "System.Int32" {
		return n, nil
	}
	n, err := Number(v)
	if err != nil {
		why := "Input string was not in a correct format."
		if _, ok := Unwrap(v).(string); !ok {
			why = ""
		}
		return nil, &ConvertError{v, typ, why}
	}
	r := intRanges[typ]
	i, isInt := asInt(n)
	if !isInt {
		f, _ := asFloat(n)
		f = math.RoundToEven(f)
		if math.IsNaN(f) || f < r.lo || f > r.hi || typ == "System.Int64" && f >= math.MaxInt64 {
			return nil, &ConvertError{v, typ, overflow(typ)}
		}
		if typ == "System.UInt64" {
			return uint64(f), nil
		}
		i = int64(f)
	}
	if f := float64(i); f < r.lo || f > r.hi {
		return nil, &ConvertError{v, typ, overflow(typ)}
	}
	switch typ {
	case "System.Byte":
		return uint8(i), nil
	case "System.SByte":
		return int8(i), nil
	case "System.Int16":
		return int16(i), nil
	case "System.UInt16":
		return uint16(i), nil
	case "System.Int32":
		return int32(i), nil
	case "System.UInt32":
		return uint32(i), nil
	case "System.UInt64":
		return uint64(i), nil
	}
	return i, nil
}

func overflow(typ string) string {
	short := ShortName(typ)
	if short == "Byte" || short == "UInt16" || short == "UInt32" || short == "UInt64" {
		return "Value was either too large or too small for an unsigned " +
			strings.ToLower(strings.TrimPrefix(short, "U")) + "."
	}
	return "Value was either too large or too small for an " + short + "."
}

// ToInt converts to a Go int, for indexes and counts.
func ToInt(v any) (int, error) {
	x, err := Int(v, "System.Int64")
	if err != nil {
		return 0, &ConvertError{v, "System.Int32", "Input string was not in a correct format."}
	}
	return int(x.(int64)), nil
}

// ToChar converts one character of text, or a code, to a Char.
func ToChar(v any) (Char, error) {
	switch v := Unwrap(v).(type) {
	case Char:
		return v, nil
	case string:
		if utf8.RuneCountInString(v) == 1 {
			r, _ := utf8.DecodeRuneInString(v)
			return Char(r), nil
		}
		return 0, &ConvertError{v, "System.Char", "String must be exactly one character long."}
	}
	i, err := Int(v, "System.UInt16")
	if err != nil {
		return 0, &ConvertError{v, "System.Char", ""}
	}
	return Char(i.(uint16)), nil
}

// Bytes converts a Byte[], or numbers that fit, to a Go byte slice.
func Bytes(v any) ([]byte, error) {
	items, ok := Items(v)
	if !ok {
		items = []any{v}
	}
	b := make([]byte, len(items))
	for i, x := range items {
		if c, ok := x.(uint8); ok {
			b[i] = c
			continue
		}
		c, err := Int(x, "System.Byte")
		if err != nil {
			return nil, err
		}
		b[i] = c.(uint8)
	}
	return b, nil
}
