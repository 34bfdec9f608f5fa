// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// dateCmdlets are Get-Date and New-TimeSpan.
func dateCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Get-Date", Params: "Date|LastWriteTime:any@0<. Format UFormat DisplayHint Year:int Month:int Day:int " +
			"Hour:int Minute:int Second:int Millisecond:int AsUTC? UnixTimeSeconds:any", Process: getDate},
		{Name: "New-TimeSpan", Params: "Start|LastWriteTime:any@0<. End:any@1 Days:int Hours:int Minutes:int " +
			"Seconds:int Milliseconds:int", Process: func(c *interp.Invocation) error {
			v, hasStart := c.Get("Start")
			e, hasEnd := c.Get("End")
			if !hasStart && !hasEnd {
				return c.Write(value.TimeSpan(time.Duration(c.Int("Days", 0))*24*time.Hour +
					time.Duration(c.Int("Hours", 0))*time.Hour + time.Duration(c.Int("Minutes", 0))*time.Minute +
					time.Duration(c.Int("Seconds", 0))*time.Second +
					time.Duration(c.Int("Milliseconds", 0))*time.Millisecond))
			}
			now := value.DateTime{Time: clock(c)}
			if !hasStart {
				v = now
			}
			if !hasEnd {
				e = now
			}
			from, err := value.ToDate(v)
			if err != nil {
				return err
			}
			to, err := value.ToDate(e)
			if err != nil {
				return err
			}
			d, err := value.Sub(to, from)
			if err != nil {
				return err
			}
			return c.Write(d)
		}},
	}
}

func clock(c *interp.Invocation) time.Time {
	if f := c.R.Handlers().Now; f != nil {
		return f().Local().Truncate(100)
	}
	return time.Now().Truncate(100)
}

func getDate(c *interp.Invocation) error {
	d := value.DateTime{Time: clock(c)}
	if v, ok := c.Get("Date"); ok && v != nil {
		var err error
		if d, err = value.ToDate(v); err != nil {
			return err
		}
	}
	if v, ok := c.Get("UnixTimeSeconds"); ok {
		n, err := value.ToInt(v)
		if err != nil {
			return err
		}
		d = value.DateTime{Time: time.Unix(int64(n), 0)}
	}
	part := func(name string, def int) int { return c.Int(name, def) }
	d = value.DateTime{Time: time.Date(part("Year", d.Year()), time.Month(part("Month", int(d.Month()))),
		part("Day", d.Day()), part("Hour", d.Hour()), part("Minute", d.Minute()), part("Second", d.Second()),
		part("Millisecond", d.Nanosecond()/1e6)*1e6+d.Nanosecond()%1e6, d.Location())}
	if c.Switch("AsUTC") {
		d = value.DateTime{Time: d.UTC()}
	}
	switch f := c.Str("Format", ""); f {
	case "":
	case "FileDate":
		return c.Write(value.FormatDate(d.Time, "yyyyMMdd"))
	case "FileDateTime":
		return c.Write(value.FormatDate(d.Time, "yyyyMMddTHHmmssffff"))
	case "FileDateUniversal":
		return c.Write(value.FormatDate(d.UTC(), "yyyyMMddZ"))
	case "FileDateTimeUniversal":
		return c.Write(value.FormatDate(d.UTC(), "yyyyMMddTHHmmssffff'Z'"))
	default:
		return c.Write(value.FormatDate(d.Time, f))
	}
	if u := c.Str("UFormat", ""); u != "" {
		s, err := unixFormat(d.Time, strings.TrimPrefix(u, "+"))
		if err != nil {
			return err
		}
		return c.Write(s)
	}
	switch lower(c.Str("DisplayHint", "")) {
	case "date":
		return c.Write(value.FormatDate(d.Time, "D"))
	case "time":
		return c.Write(value.FormatDate(d.Time, "T"))
	}
	return c.Write(d)
}

// unixFormat is Get-Date -UFormat.
func unixFormat(t time.Time, f string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(f); i++ {
		if f[i] != '%' || i+1 >= len(f) {
			b.WriteByte(f[i])
			continue
		}
		i++
		net, ok := map[byte]string{'Y': "yyyy", 'y': "yy", 'm': "MM", 'd': "dd", 'H': "HH", 'I': "hh", 'M': "mm",
			'S': "ss", 'p': "tt", 'A': "dddd", 'a': "ddd", 'B': "MMMM", 'b': "MMM", 'F': "yyyy-MM-dd", 'T': "HH:mm:ss",
			'R': "HH:mm", 'D': "MM/dd/yy", 'e': "%d", 'Z': "zz"}[f[i]]
		switch {
		case ok:
			b.WriteString(value.FormatDate(t, net))
		case f[i] == 's':
			b.WriteString(value.String(t.Unix()))
		case f[i] == 'j':
			b.WriteString(value.String(int32(t.YearDay())))
		case f[i] == '%':
			b.WriteByte('%')
		case f[i] == 'n':
			b.WriteByte('\n')
		case f[i] == 't':
			b.WriteByte('\t')
		default:
			return "", interp.NotImplemented("the -UFormat specifier %" + string(f[i]))
		}
	}
	return b.String(), nil
}
