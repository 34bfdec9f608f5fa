// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// jsonCmdlets are ConvertTo-Json and ConvertFrom-Json.
func jsonCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "ConvertTo-Json", Params: "InputObject:any@0< Depth:int Compress? AsArray? EnumsAsStrings? " +
			"EscapeHandling~", Begin: func(c *interp.Invocation) error {
			c.State = &value.List{}
			return nil
		}, Process: func(c *interp.Invocation) error {
			if c.HasItem || c.Has("InputObject") {
				l := c.State.(*value.List)
				l.Items = append(l.Items, c.Any("InputObject"))
			}
			return nil
		}, End: func(c *interp.Invocation) error {
			items := c.State.(*value.List).Items
			if len(items) == 0 {
				return nil
			}
			depth := c.Int("Depth", 2)
			if depth < 0 || depth > 100 {
				return badArgument("Depth", "Cannot validate argument on parameter 'Depth'. The argument is outside "+
					"of the allowed range of 0 to 100.")
			}
			var v = items[0]
			if len(items) > 1 || c.Switch("AsArray") {
				v = value.NewArray(items...)
			}
			w := &jsonWriter{
				r:        c.R,
				depth:    depth,
				compress: c.Switch("Compress"),
				enums:    c.Switch("EnumsAsStrings"),
				desktop:  c.R.Edition() == 0,
			}
			if err := w.write(v, 0, 0); err != nil {
				return err
			}
			return c.Write(w.b.String())
		}},
		{Name: "ConvertFrom-Json", Params: "InputObject[]@0!< AsHashtable? Depth:int NoEnumerate?",
			Begin: func(c *interp.Invocation) error {
				c.State = &strings.Builder{}
				return nil
			}, Process: func(c *interp.Invocation) error {
				b := c.State.(*strings.Builder)
				for _, s := range c.Strs("InputObject") {
					b.WriteString(s + "\n")
				}
				return nil
			}, End: func(c *interp.Invocation) error {
				v, err := parseJSON(c.State.(*strings.Builder).String(), c.Switch("AsHashtable"), c.Int("Depth", 1024))
				if err != nil {
					return interp.Failf("System.ArgumentException", "System.ArgumentException", "NotSpecified", nil,
						"Invalid JSON primitive: %s", err.Error())
				}
				if c.R.Edition() == 0 || c.Switch("NoEnumerate") {
					return c.Write(v) // 5.1 writes an array as one object
				}
				return c.WriteAll(v)
			}},
	}
}

type jsonWriter struct {
	r        *interp.Runner
	b        strings.Builder
	depth    int
	compress bool
	enums    bool
	desktop  bool
}

// pad is how an element is indented: 5.1 aligns it under its bracket, 7 uses
// two blanks for each level.
func (w *jsonWriter) line(indent int) {
	if !w.compress {
		w.b.WriteString("\n" + strings.Repeat(" ", indent))
		if w.r.Windows() {
			return
		}
	}
}

func (w *jsonWriter) write(v any, level, indent int) error {
	if w.b.Len() > value.MaxItems {
		return value.ErrTooLarge
	}
	switch x := v.(type) {
	case nil:
		w.b.WriteString("null")
		return nil
	case bool:
		w.b.WriteString(strconv.FormatBool(x))
		return nil
	case interp.Switch:
		fmt.Fprintf(&w.b, `{"IsPresent":%t}`, bool(x))
		return nil
	case string:
		w.quote(x)
		return nil
	case value.Char:
		w.quote(string(rune(x)))
		return nil
	case float64:
		w.float(x)
		return nil
	case value.DateTime:
		if w.desktop {
			fmt.Fprintf(&w.b, `"\/Date(%d)\/"`, x.UnixMilli())
		} else {
			w.quote(value.FormatDate(x.Time, "yyyy-MM-ddTHH:mm:ss.FFFFFFFK"))
		}
		return nil
	case value.Version:
		return w.write(value.NewObject("", "Major", i32(x.Major), "Minor", i32(x.Minor), "Build", i32(x.Build),
			"Revision", i32(x.Revision), "MajorRevision", i32(x.Revision>>16), "MinorRevision",
			int32(int16(x.Revision))), level, indent)
	case value.Guid, *value.Type:
		w.quote(value.String(x))
		return nil
	case interp.EnumValue:
		if w.enums {
			w.quote(x.Text())
		} else {
			w.b.WriteString(strconv.FormatInt(x.N, 10))
		}
		return nil
	}
	if value.IsNumber(v) {
		w.b.WriteString(value.String(v))
		return nil
	}
	if level > w.depth {
		w.quote(w.r.Text(v))
		return nil
	}
	if items, ok := value.Items(v); ok {
		return w.list(items, level, indent)
	}
	return w.object(v, level, indent)
}

func (w *jsonWriter) float(f float64) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		w.quote(value.FormatFloat(f))
	case f == math.Trunc(f) && math.Abs(f) < 1e15:
		w.b.WriteString(strconv.FormatFloat(f, 'f', 1, 64))
	default:
		w.b.WriteString(value.FormatFloat(f))
	}
}

func (w *jsonWriter) list(items []any, level, indent int) error {
	return w.group("[", "]", len(items), indent, func(i, inner int) error { return w.write(items[i], level+1, inner) })
}

// group writes n items between brackets, each on a separate line.
func (w *jsonWriter) group(opening, closing string, n, indent int, item func(i, inner int) error) error {
	w.b.WriteString(opening)
	if n == 0 {
		if w.desktop && !w.compress {
			w.b.WriteString("\n\n" + strings.Repeat(" ", indent))
		}
		w.b.WriteString(closing)
		return nil
	}
	inner := indent + 2
	if w.desktop {
		inner = indent + 4
	}
	for i := range n {
		if i > 0 {
			w.b.WriteString(",")
		}
		w.line(inner)
		if err := item(i, inner); err != nil {
			return err
		}
	}
	w.line(indent)
	w.b.WriteString(closing)
	return nil
}

// object writes the properties of an object or the entries of a dictionary.
func (w *jsonWriter) object(v any, level, indent int) error {
	type pair struct {
		name string
		val  any
	}
	var pairs []pair
	switch x := v.(type) {
	case *value.Hash:
		for _, k := range x.Keys() {
			val, _ := x.Get(k)
			pairs = append(pairs, pair{value.String(k), val})
		}
	case *value.Object:
		if x.Base != nil {
			return w.write(x.Base, level, indent)
		}
		for _, p := range x.Props {
			if _, method := p.Value.(*interp.ScriptMethod); method {
				continue
			}
			val, err := w.r.Property(x, p.Name)
			if err != nil {
				return err
			}
			pairs = append(pairs, pair{p.Name, val})
		}
	default:
		props, _ := w.r.Members(v)
		for _, p := range props {
			val, err := w.r.Property(v, p.Name)
			if err != nil {
				continue // a property that cannot be read is left out, as PowerShell does
			}
			pairs = append(pairs, pair{p.Name, val})
		}
	}
	return w.group("{", "}", len(pairs), indent, func(i, inner int) error {
		start := w.b.Len()
		w.quote(pairs[i].name)
		w.b.WriteString(":")
		switch {
		case w.compress:
		case w.desktop:
			w.b.WriteString("  ")
		default:
			w.b.WriteString(" ")
		}
		at := inner
		if w.desktop { // nested items are aligned with the value
			at = inner + w.b.Len() - start
		}
		return w.write(pairs[i].val, level+1, at)
	})
}

// quote writes a JSON string; 5.1 also escapes the special characters of HTML.
func (w *jsonWriter) quote(s string) {
	w.b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"':
			w.b.WriteString(`\"`)
		case r == '\\':
			w.b.WriteString(`\\`)
		case r == '\n':
			w.b.WriteString(`\n`)
		case r == '\r':
			w.b.WriteString(`\r`)
		case r == '\t':
			w.b.WriteString(`\t`)
		case r == '\b':
			w.b.WriteString(`\b`)
		case r == '\f':
			w.b.WriteString(`\f`)
		case r < 0x20, w.desktop && (r == '<' || r == '>' || r == '&' || r == '\''), r == 0x2028, r == 0x2029:
			fmt.Fprintf(&w.b, `\u%04x`, r)
		default:
			w.b.WriteRune(r)
		}
	}
	w.b.WriteByte('"')
}

// parseJSON reads JSON: objects become custom objects, or hashtables.
func parseJSON(text string, hash bool, depth int) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	v, err := jsonValue(d, hash, depth)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("additional text after the value")
	}
	return v, nil
}

func jsonValue(d *json.Decoder, hash bool, depth int) (any, error) {
	if depth < 0 {
		return nil, errors.New("the maximum depth is exceeded")
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch x := t.(type) {
	case json.Delim:
		if x == '[' {
			items := []any{}
			for d.More() {
				v, err := jsonValue(d, hash, depth-1)
				if err != nil {
					return nil, err
				}
				items = append(items, v)
			}
			_, err := d.Token()
			return value.NewArray(items...), err
		}
		o, h := &value.Object{}, &value.Hash{Ordered: true}
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			name, ok := k.(string)
			if !ok {
				return nil, errors.New("a name is missing")
			}
			v, err := jsonValue(d, hash, depth-1)
			if err != nil {
				return nil, err
			}
			if hash {
				h.Set(name, v)
			} else {
				o.Set(name, v)
			}
		}
		_, err := d.Token()
		if hash {
			return h, err
		}
		return o, err
	case json.Number:
		return jsonNumber(x), nil
	case string:
		if len(x) >= 19 && x[4] == '-' && x[10] == 'T' && !hash {
			if t, err := time.Parse(time.RFC3339Nano, x); err == nil {
				if strings.HasSuffix(x, "Z") {
					return value.DateTime{Time: t.UTC()}, nil
				}
				return value.DateTime{Time: t.Local()}, nil
			}
		}
		return x, nil
	}
	return t, nil
}

func jsonNumber(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		if i >= math.MinInt32 && i <= math.MaxInt32 {
			return int32(i)
		}
		return i
	}
	f, err := n.Float64()
	if err != nil {
		return n.String()
	}
	return f
}
