// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package value

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// standardDates are .NET's standard date formats, in the en-US culture.
// Source: https://learn.microsoft.com/dotnet/standard/base-types/standard-date-and-time-format-strings, read 2026-11.
var standardDates = map[string]string{
	"d": "M/d/yyyy", "D": "dddd, MMMM d, yyyy", "t": "h:mm tt", "T": "h:mm:ss tt",
	"f": "dddd, MMMM d, yyyy h:mm tt", "F": "dddd, MMMM d, yyyy h:mm:ss tt",
	"g": "M/d/yyyy h:mm tt", "G": "M/d/yyyy h:mm:ss tt", "M": "MMMM d", "m": "MMMM d",
	"Y": "MMMM yyyy", "y": "MMMM yyyy", "s": "yyyy'-'MM'-'dd'T'HH':'mm':'ss",
	"u": "yyyy'-'MM'-'dd HH':'mm':'ss'Z'", "o": "yyyy'-'MM'-'dd'T'HH':'mm':'ss'.'fffffffK",
	"O": "yyyy'-'MM'-'dd'T'HH':'mm':'ss'.'fffffffK", "R": "ddd, dd MMM yyyy HH':'mm':'ss 'GMT'",
	"r": "ddd, dd MMM yyyy HH':'mm':'ss 'GMT'", "U": "dddd, MMMM d, yyyy h:mm:ss tt",
}

// FormatDate writes a time by a .NET format string.
func FormatDate(t time.Time, format string) string {
	if format == "" {
		format = "G"
	}
	if std, ok := standardDates[format]; ok {
		if format == "R" || format == "r" || format == "U" {
			t = t.UTC()
		}
		format = std
	}
	format = strings.TrimPrefix(format, "%")
	var b strings.Builder
	for i := 0; i < len(format); {
		c := format[i]
		n := 1
		for i+n < len(format) && format[i+n] == c {
			n++
		}
		switch c {
		case '\'', '"':
			j := strings.IndexByte(format[i+1:], c)
			if j < 0 {
				b.WriteString(format[i+1:])
				return b.String()
			}
			b.WriteString(format[i+1 : i+1+j])
			i += j + 2
			continue
		case '\\':
			if i+1 < len(format) {
				b.WriteByte(format[i+1])
			}
			i += 2
			continue
		}
		if !datePart(&b, t, c, n) {
			b.WriteString(format[i : i+n])
		}
		i += n
	}
	return b.String()
}

// datePart writes one run of a custom date format; it is false for a literal.
func datePart(b *strings.Builder, t time.Time, c byte, n int) bool {
	num := func(x, width int) { fmt.Fprintf(b, "%0*d", width, x) }
	switch c {
	case 'y':
		switch {
		case n <= 2:
			num(t.Year()%100, n)
		default:
			num(t.Year(), n)
		}
	case 'M':
		switch {
		case n <= 2:
			num(int(t.Month()), n)
		case n == 3:
			b.WriteString(t.Month().String()[:3])
		default:
			b.WriteString(t.Month().String())
		}
	case 'd':
		switch {
		case n <= 2:
			num(t.Day(), n)
		case n == 3:
			b.WriteString(t.Weekday().String()[:3])
		default:
			b.WriteString(t.Weekday().String())
		}
	case 'H':
		num(t.Hour(), min(n, 2))
	case 'h':
		num((t.Hour()+11)%12+1, min(n, 2))
	case 'm':
		num(t.Minute(), min(n, 2))
	case 's':
		num(t.Second(), min(n, 2))
	case 'f', 'F':
		frac := fmt.Sprintf("%09d", t.Nanosecond())[:min(n, 7)]
		if c == 'F' {
			frac = strings.TrimRight(frac, "0")
			if text := b.String(); frac == "" && strings.HasSuffix(text, ".") { // .NET leaves the point out, too
				b.Reset()
				b.WriteString(text[:len(text)-1])
			}
		}
		b.WriteString(frac)
	case 't':
		b.WriteString(t.Format("PM")[:min(n, 2)])
	case 'z':
		_, off := t.Zone()
		sign := '+'
		if off < 0 {
			sign, off = '-', -off
		}
		switch n {
		case 1:
			fmt.Fprintf(b, "%c%d", sign, off/3600)
		case 2:
			fmt.Fprintf(b, "%c%02d", sign, off/3600)
		default:
			fmt.Fprintf(b, "%c%02d:%02d", sign, off/3600, off/60%60)
		}
	case 'K':
		switch t.Location() {
		case time.UTC:
			b.WriteString("Z")
		case time.Local:
			b.WriteString(t.Format("-07:00"))
		}
	case 'g':
		b.WriteString("A.D.")
	default:
		return false
	}
	return true
}

// dateLayouts are the texts that a date is read from, in Go's notation.
var dateLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.9999999", "2006-01-02T15:04:05", "2006-01-02T15:04",
	"2006-01-02 15:04:05.999", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05Z", "2006-01-02",
	"2006/01/02 15:04:05", "2006/01/02", "1/2/2006 3:04:05 PM", "1/2/2006 15:04:05", "1/2/2006 3:04 PM",
	"1/2/2006 15:04", "1/2/2006", "2006-1-2", "1-2-2006", "Monday, January 2, 2006 3:04:05 PM",
	"Monday, January 2, 2006", "January 2, 2006 3:04:05 PM", "January 2, 2006 15:04:05", "January 2, 2006",
	"Jan 2, 2006", "2 January 2006", "2 Jan 2006", "Mon, 02 Jan 2006 15:04:05 GMT", time.RFC1123Z, "15:04:05", "15:04",
	"3:04 PM", "3:04:05 PM", "January 2006", "2006-01",
}

// unspecified is the location of a DateTime whose Kind is Unspecified.
var unspecified = time.FixedZone("unspecified", 0)

// Unspecified returns a time's clock reading with the Kind Unspecified.
func Unspecified(t time.Time) DateTime {
	return DateTime{time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(),
		unspecified)}
}

// Kind returns the name of a DateTime's Kind.
func (d DateTime) Kind() string {
	switch d.Location() {
	case time.UTC:
		return "Utc"
	case time.Local:
		return "Local"
	}
	return "Unspecified"
}

// parseDate reads a date in the invariant culture; a zone makes it local.
func parseDate(s string) (DateTime, bool) {
	s = strings.TrimSpace(s)
	for _, layout := range dateLayouts {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		if layout == time.RFC3339Nano || layout == time.RFC1123Z || strings.HasSuffix(layout, "GMT") ||
			strings.HasSuffix(layout, "Z") {
			return DateTime{t.Local()}, true
		}
		if t.Year() == 0 { // a time alone is today's
			now := time.Now()
			t = time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, unspecified)
		}
		return Unspecified(t), true
	}
	return DateTime{}, false
}

// ToDate converts to a DateTime: a number counts ticks since the year 1.
func ToDate(v any) (DateTime, error) {
	switch v := Unwrap(v).(type) {
	case DateTime:
		return v, nil
	case string:
		if d, ok := parseDate(v); ok {
			return d, nil
		}
		return DateTime{}, &ConvertError{v, "System.DateTime", "String was not recognized as a valid DateTime."}
	}
	n, err := Int(v, "System.Int64")
	if err != nil {
		return DateTime{}, &ConvertError{v, "System.DateTime", ""}
	}
	return FromTicks(n.(int64)), nil
}

// epochTicks is 1970-01-01 in ticks of 100 ns since 0001-01-01.
// Source: .NET's DateTime.UnixEpoch.Ticks.
const epochTicks = 621355968000000000

// FromTicks converts .NET ticks to a DateTime.
func FromTicks(ticks int64) DateTime {
	d := ticks - epochTicks
	return Unspecified(time.Unix(d/1e7, d%1e7*100).UTC())
}

// Ticks counts 100 ns since 0001-01-01 on the date's own clock.
func (d DateTime) Ticks() int64 {
	w := wall(d)
	return w.Unix()*1e7 + int64(w.Nanosecond()/100) + epochTicks
}

// FormatSpan writes a TimeSpan: c (the default), g, G or a custom format.
func FormatSpan(d time.Duration, format string) string {
	neg := d < 0
	if neg {
		d = -d
	}
	days, h := int64(d/(24*time.Hour)), int(d/time.Hour)%24
	m, s, frac := int(d/time.Minute)%60, int(d/time.Second)%60, int64(d%time.Second)/100
	sign := ""
	if neg {
		sign = "-"
	}
	switch format {
	case "", "c", "t", "T":
		out := sign
		if days > 0 {
			out += strconv.FormatInt(days, 10) + "."
		}
		out += fmt.Sprintf("%02d:%02d:%02d", h, m, s)
		if frac > 0 {
			out += fmt.Sprintf(".%07d", frac)
		}
		return out
	case "g", "G":
		out := sign
		if days > 0 || format == "G" {
			out += strconv.FormatInt(days, 10) + ":"
		}
		if format == "G" {
			return out + fmt.Sprintf("%02d:%02d:%02d.%07d", h, m, s, frac)
		}
		out += fmt.Sprintf("%d:%02d:%02d", h, m, s)
		if frac > 0 {
			out += "." + strings.TrimRight(fmt.Sprintf("%07d", frac), "0")
		}
		return out
	}
	var b strings.Builder
	for i := 0; i < len(format); {
		c := format[i]
		n := 1
		for i+n < len(format) && format[i+n] == c {
			n++
		}
		switch c {
		case 'd':
			fmt.Fprintf(&b, "%0*d", n, days)
		case 'h':
			fmt.Fprintf(&b, "%0*d", n, h)
		case 'm':
			fmt.Fprintf(&b, "%0*d", n, m)
		case 's':
			fmt.Fprintf(&b, "%0*d", n, s)
		case 'f', 'F':
			b.WriteString(fmt.Sprintf("%07d", frac)[:min(n, 7)])
		case '\\':
			if i+1 < len(format) {
				b.WriteByte(format[i+1])
			}
			n = 2
		case '\'':
			j := strings.IndexByte(format[i+1:], '\'')
			if j < 0 {
				j = len(format) - i - 1
			}
			b.WriteString(format[i+1 : i+1+j])
			n = j + 2
		case '%':
		default:
			b.WriteString(format[i : i+n])
		}
		i += n
	}
	return b.String()
}

// parseSpan reads [-][d.]hh:mm[:ss[.fffffff]] or a number of days.
func parseSpan(s string) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	t, neg := strings.CutPrefix(s, "-")
	var days, h, m, sec int64
	var frac float64
	parts := strings.Split(t, ":")
	num := func(s string) (int64, bool) {
		n, err := strconv.ParseInt(s, 10, 32)
		return n, err == nil && n >= 0
	}
	ok := true
	check := func(n int64, good bool) int64 { ok = ok && good; return n }
	switch len(parts) {
	case 1:
		days = check(num(parts[0]))
	case 2, 3, 4:
		if len(parts) == 4 {
			days, parts = check(num(parts[0])), parts[1:]
		} else if d, rest, found := strings.Cut(parts[0], "."); found {
			days, parts[0] = check(num(d)), rest
		}
		h, m = check(num(parts[0])), check(num(parts[1]))
		if len(parts) == 3 {
			whole, f, has := strings.Cut(parts[2], ".")
			sec = check(num(whole))
			if has {
				x, err := strconv.ParseFloat("0."+f, 64)
				frac, ok = x, ok && err == nil
			}
		}
	default:
		return 0, false
	}
	if !ok || h > 23 || m > 59 || sec > 59 || days > 10675199/100 {
		return 0, false
	}
	d := time.Duration(days)*24*time.Hour + time.Duration(h)*time.Hour + time.Duration(m)*time.Minute +
		time.Duration(sec)*time.Second + time.Duration(math.Round(frac*1e7))*100
	if neg {
		d = -d
	}
	return d, true
}

// ParseExact reads a date by a .NET custom format: its parts become Go's.
func ParseExact(s, format string) (DateTime, bool) {
	if std, ok := standardDates[format]; ok {
		format = std
	}
	parts := []struct{ net, layout string }{
		{"yyyy", "2006"}, {"yy", "06"}, {"MMMM", "January"}, {"MMM", "Jan"}, {"MM", "01"}, {"M", "1"},
		{"dddd", "Monday"}, {"ddd", "Mon"}, {"dd", "02"}, {"d", "2"}, {"HH", "15"}, {"H", "15"}, {"hh", "03"},
		{"h", "3"}, {"mm", "04"}, {"m", "4"}, {"ss", "05"}, {"s", "5"}, {"tt", "PM"}, {"zzz", "-07:00"},
		{"K", "Z07:00"},
	}
	var layout strings.Builder
next:
	for i := 0; i < len(format); {
		if format[i] == '\'' {
			if j := strings.IndexByte(format[i+1:], '\''); j >= 0 {
				layout.WriteString(format[i+1 : i+1+j])
				i += j + 2
				continue
			}
		}
		if n := len(format[i:]) - len(strings.TrimLeft(format[i:], "fF")); n > 0 {
			layout.WriteString(strings.Repeat("0", n))
			i += n
			continue
		}
		for _, p := range parts {
			if strings.HasPrefix(format[i:], p.net) {
				layout.WriteString(p.layout)
				i += len(p.net)
				continue next
			}
		}
		layout.WriteByte(format[i])
		i++
	}
	t, err := time.Parse(layout.String(), s)
	if err != nil {
		return DateTime{}, false
	}
	if strings.ContainsAny(format, "zK") {
		return DateTime{t.Local()}, true
	}
	return Unspecified(t), true
}
