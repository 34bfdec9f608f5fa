// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package value

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// errFormat is PowerShell's message for a bad composite format: it puts a full
// stop behind .NET's, which has one.
var errFormat = errors.New("Error formatting a string: Index (zero based) must be greater than or equal to zero and " +
	"less than the size of the argument list..")

var errBadFormat = errors.New("Error formatting a string: Input string was not in a correct format..")

// Format implements the -f operator: {index[,width][:format]}, {{ and }}.
// Source: https://learn.microsoft.com/dotnet/standard/base-types/composite-formatting, read 2026-11.
func Format(format string, args []any) (string, error) {
	var b strings.Builder
	for i := 0; i < len(format); {
		c := format[i]
		if c == '{' || c == '}' {
			if i+1 < len(format) && format[i+1] == c {
				b.WriteByte(c)
				i += 2
				continue
			}
			if c == '}' {
				return "", errBadFormat
			}
			j := strings.IndexByte(format[i:], '}')
			if j < 0 {
				return "", errBadFormat
			}
			s, err := formatHole(format[i+1:i+j], args)
			if err != nil {
				return "", err
			}
			b.WriteString(s)
			i += j + 1
			continue
		}
		b.WriteByte(c)
		i++
	}
	return b.String(), nil
}

func formatHole(hole string, args []any) (string, error) {
	spec, format, _ := strings.Cut(hole, ":")
	index, width, hasWidth := strings.Cut(spec, ",")
	n, err := strconv.Atoi(strings.TrimSpace(index))
	if err != nil {
		return "", errBadFormat
	}
	if n < 0 || n >= len(args) {
		return "", errFormat
	}
	s, err := FormatValue(args[n], format)
	if err != nil || !hasWidth {
		return s, err
	}
	w, err := strconv.Atoi(strings.TrimSpace(width))
	if err != nil || w > MaxItems || w < -MaxItems {
		return "", errBadFormat
	}
	return Pad(s, w), nil
}

// Pad fills with blanks: to the right for a negative width.
func Pad(s string, width int) string {
	n := utf8.RuneCountInString(s)
	switch {
	case width > n:
		return strings.Repeat(" ", width-n) + s
	case -width > n:
		return s + strings.Repeat(" ", -width-n)
	}
	return s
}

// FormatValue is ToString(format) in the en-US culture.
func FormatValue(v any, format string) (string, error) {
	switch x := Unwrap(v).(type) {
	case DateTime:
		return FormatDate(x.Time, format), nil
	case TimeSpan:
		return FormatSpan(time.Duration(x), format), nil
	case Guid:
		switch strings.ToUpper(format) {
		case "N":
			return strings.ReplaceAll(string(x), "-", ""), nil
		case "B":
			return "{" + string(x) + "}", nil
		case "P":
			return "(" + string(x) + ")", nil
		}
		return string(x), nil
	case *Array:
		return TypeName(x), nil
	case interface{ IntValue() int64 }:
		if t, ok := v.(Texter); ok && !strings.EqualFold(format, "d") && !strings.EqualFold(format, "x") {
			return t.Text(), nil
		}
		return formatNumber(int32(x.IntValue()), format)
	}
	if format != "" && IsNumber(v) {
		return formatNumber(v, format)
	}
	return String(v), nil
}

// formatNumber does the standard numeric formats and the custom ones.
// Source: https://learn.microsoft.com/dotnet/standard/base-types/standard-numeric-format-strings, read 2026-11.
func formatNumber(v any, format string) (string, error) {
	f, _ := asFloat(v)
	i, isInt := asInt(v)
	letter := format[0]
	digits, err := -1, error(nil)
	standard := letter|0x20 >= 'a' && letter|0x20 <= 'z'
	if standard && len(format) > 1 {
		digits, err = strconv.Atoi(format[1:])
		standard = err == nil && digits >= 0 && digits < 100
	}
	if !standard {
		return customNumber(f, format), nil
	}
	switch letter | 0x20 {
	case 'd':
		if !isInt {
			return "", errors.New("Error formatting a string: Format specifier was invalid..")
		}
		s := strconv.FormatInt(i, 10)
		neg := strings.HasPrefix(s, "-")
		s = strings.TrimPrefix(s, "-")
		if len(s) < digits {
			s = strings.Repeat("0", digits-len(s)) + s
		}
		if neg {
			s = "-" + s
		}
		return s, nil
	case 'x':
		if !isInt {
			return "", errors.New("Error formatting a string: Format specifier was invalid..")
		}
		return hexNumber(v, i, letter, digits), nil
	case 'n', 'f', 'c', 'p':
		return groupedNumber(f, letter|0x20, digits), nil
	case 'e':
		if digits < 0 {
			digits = 6
		}
		s := strconv.FormatFloat(f, letter, digits, 64)
		at := strings.LastIndexAny(s, "+-")
		return s[:at+1] + strings.Repeat("0", max(3-len(s[at+1:]), 0)) + s[at+1:], nil
	case 'g', 'r':
		if digits <= 0 || letter|0x20 == 'r' {
			return String(v), nil
		}
		return strings.ToUpper(strconv.FormatFloat(f, 'g', digits, 64)), nil
	}
	return "", errors.New("Error formatting a string: Format specifier was invalid..")
}

func hexNumber(v any, i int64, letter byte, digits int) string {
	u := uint64(i)
	switch v.(type) {
	case int32:
		u = uint64(uint32(i))
	case int16:
		u = uint64(uint16(i))
	case int8:
		u = uint64(uint8(i))
	}
	s := strconv.FormatUint(u, 16)
	if letter == 'X' {
		s = strings.ToUpper(s)
	}
	if len(s) < digits {
		s = strings.Repeat("0", digits-len(s)) + s
	}
	return s
}

// round rounds half away from zero, as .NET formats.
func fixed(f float64, digits int) string {
	if digits < 16 {
		scale := math.Pow(10, float64(digits))
		if r := math.Round(f*scale) / scale; !math.IsInf(r, 0) && math.Abs(f) < 1e15/scale {
			f = r
		}
	}
	return strconv.FormatFloat(f, 'f', digits, 64)
}

func groupedNumber(f float64, letter byte, digits int) string {
	if digits < 0 {
		digits = 2 // of the en-US culture
	}
	if letter == 'p' {
		f *= 100
	}
	neg := f < 0
	s := fixed(math.Abs(f), digits)
	if letter != 'f' {
		whole, frac, has := strings.Cut(s, ".")
		s = group(whole)
		if has {
			s += "." + frac
		}
	}
	if neg && strings.Trim(s, "0.,") == "" {
		neg = false
	}
	switch {
	case letter == 'c' && neg:
		return "($" + s + ")"
	case letter == 'c':
		return "$" + s
	case letter == 'p':
		s += "%"
	}
	if neg {
		s = "-" + s
	}
	return s
}

func group(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// customNumber does 0 # . , % and literals, with sections for positive,
// negative and zero.
func customNumber(f float64, format string) string {
	sections := strings.Split(format, ";")
	neg := f < 0
	switch {
	case neg && len(sections) > 1 && sections[1] != "":
		format, f, neg = sections[1], -f, false
	case f == 0 && len(sections) > 2:
		format = sections[2]
	default:
		format = sections[0]
	}
	f = math.Abs(f)
	first := strings.IndexAny(format, "0#")
	if first < 0 {
		return format
	}
	last := strings.LastIndexAny(format, "0#.")
	prefix, body, suffix := format[:first], format[first:last+1], format[last+1:]
	if first > 0 && format[first-1] == '.' {
		prefix, body = format[:first-1], "."+body
	}
	if strings.Contains(prefix+suffix, "%") {
		f *= 100
	}
	whole, frac, _ := strings.Cut(body, ".")
	grouped := strings.Contains(whole, ",")
	whole = strings.ReplaceAll(whole, ",", "")
	s := fixed(f, len(frac))
	sw, sf, _ := strings.Cut(s, ".")
	minWhole := strings.Count(whole, "0")
	if i := strings.IndexByte(whole, '0'); i >= 0 {
		minWhole = len(whole) - i
	}
	if sw == "0" && minWhole == 0 {
		sw = ""
	}
	if len(sw) < minWhole {
		sw = strings.Repeat("0", minWhole-len(sw)) + sw
	}
	if grouped {
		sw = group(sw)
	}
	keep := strings.LastIndexByte(frac, '0') + 1
	for len(sf) > keep && sf[len(sf)-1] == '0' {
		sf = sf[:len(sf)-1]
	}
	out := sw
	if sf != "" {
		out += "." + sf
	}
	unquote := strings.NewReplacer("'", "", "\"", "", "\\", "")
	out = unquote.Replace(prefix) + out + unquote.Replace(suffix)
	if neg && strings.Trim(sw+sf, "0,") != "" {
		out = "-" + out
	}
	return out
}
