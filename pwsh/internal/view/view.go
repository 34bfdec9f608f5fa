// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package view writes objects as PowerShell's console shows them: text as it
// is, objects as tables, lists or wide columns.
//
// Fidelity: simplified - a table's columns are as wide as their contents, and
// only types that scripts print often have the views of PowerShell's .ps1xml
// files (docs/fidelity/pwsh.md).
//
// Source: about_Format.ps1xml and the formatting cmdlets' pages,
// https://learn.microsoft.com/powershell/scripting/samples/using-format-commands-to-change-output-view, read 2026-11.
package view

import (
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// Width is the width of a console without a terminal. Characters; the default
// of a Windows console.
const Width = 120

// Kind is a way of laying objects out.
type Kind uint8

// The layouts.
const (
	Auto Kind = iota
	Table
	List
)

// Column is one property to show.
type Column struct {
	Label string
	Value func(v any) (any, error)
	Align int // 1: right, -1: left, 0: by the value
	Width int // fixed width, or 0
	Fmt   string
}

// Format is the output of the Format- cmdlets: a group of objects with their
// layout.
type Format struct {
	Kind       Kind
	Columns    []Column // nil: chosen by the object
	Items      []any
	HideHeader bool
	Wrap       bool
	GroupBy    string
}

// TypeName returns the .NET name.
func (*Format) TypeName() string {
	return "Microsoft.PowerShell.Commands.Internal.Format.FormatStartData"
}

// Writer shows objects on a console or in a file.
type Writer struct {
	r     *interp.Runner
	w     io.Writer
	nl    string
	width int
	group []any
	key   string
}

// New returns a new Writer; it is an interp.Library's Display.
func New(r *interp.Runner, w io.Writer) interp.Display { return NewWidth(r, w, Width) }

// NewWidth returns a new Writer with the given width.
func NewWidth(r *interp.Runner, w io.Writer, width int) *Writer {
	return &Writer{r: r, w: w, nl: r.Newline(), width: width}
}

// Add shows a value; objects that may share a table are held back until Flush.
func (w *Writer) Add(v any) error {
	switch x := v.(type) {
	case nil:
		return nil
	case string:
		if err := w.Flush(); err != nil {
			return err
		}
		return w.line(x)
	case *Format:
		if err := w.Flush(); err != nil {
			return err
		}
		return w.format(x)
	case *interp.ErrorRecord:
		if err := w.Flush(); err != nil {
			return err
		}
		if x.FQID == "NativeCommandError" {
			return w.line(x.Text())
		}
		return w.write(strings.TrimSuffix(w.r.FormatError(x), "\n \n") + "\n")
	case *interp.StreamRecord:
		if err := w.Flush(); err != nil {
			return err
		}
		return w.line(x.Text())
	case *value.Array, *value.List:
		items, _ := value.Items(x)
		for _, i := range items {
			if err := w.Add(i); err != nil {
				return err
			}
		}
		return nil
	}
	key := w.shape(v)
	if key == "" {
		if err := w.Flush(); err != nil {
			return err
		}
		return w.line(w.plain(v))
	}
	if key != w.key && len(w.group) > 0 {
		if err := w.Flush(); err != nil {
			return err
		}
	}
	w.key = key
	w.group = append(w.group, v)
	return nil
}

// Flush shows the buffered values.
func (w *Writer) Flush() error {
	if len(w.group) == 0 {
		return nil
	}
	items := w.group
	w.group, w.key = nil, ""
	return w.format(&Format{Items: items})
}

func (w *Writer) line(s string) error { return w.write(s + "\n") }

func (w *Writer) write(s string) error {
	if w.nl != "\n" {
		s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", w.nl)
	}
	_, err := io.WriteString(w.w, s)
	return err
}

// plain returns a value that is shown as one line of text.
func (w *Writer) plain(v any) string {
	switch x := v.(type) {
	case value.DateTime:
		return "\n" + value.FormatDate(x.Time, "F") + "\n"
	case *value.Object:
		if x.Base != nil {
			return w.plain(x.Base)
		}
	}
	return w.r.Text(v)
}

// shape is equal for values that share a table; empty for plain text.
func (w *Writer) shape(v any) string {
	switch x := v.(type) {
	case bool, int32, int64, float64, float32, uint8, int8, int16, uint16, uint32, uint64, value.Char, value.DateTime,
		value.Guid, interp.Switch, interp.EnumValue, *value.Type, *interp.ScriptBlock:
		return ""
	case *value.Hash:
		return "hash"
	case *value.Object:
		if x.Base != nil && len(x.Props) == 0 {
			return w.shape(x.Base)
		}
		if x.Base != nil {
			if _, text := x.Base.(string); text {
				return ""
			}
		}
		if isFile(x) {
			return "files" // and directories share a table
		}
		if len(x.Types) > 0 {
			return x.Types[0]
		}
		var names []string
		for _, p := range x.Props {
			names = append(names, p.Name)
		}
		if len(names) == 0 {
			return ""
		}
		return "custom"
	case *interp.Exception:
		return ""
	}
	if len(w.columns(v)) == 0 {
		return ""
	}
	return value.TypeName(v)
}

// columns returns the properties that a value shows by default.
func (w *Writer) columns(v any) []Column {
	var names []string
	switch x := v.(type) {
	case *value.Hash:
		names = nil
	case *value.Object:
		names = x.Show
		if names == nil {
			for _, p := range x.Props {
				if _, method := p.Value.(*interp.ScriptMethod); !method {
					names = append(names, p.Name)
				}
			}
			if x.Base != nil {
				var more []string
				for _, c := range w.columns(x.Base) {
					more = append(more, c.Label)
				}
				names = append(more, names...)
			}
		}
	case value.TimeSpan:
		names = []string{"Days", "Hours", "Minutes", "Seconds", "Milliseconds", "Ticks", "TotalDays", "TotalHours",
			"TotalMinutes", "TotalSeconds", "TotalMilliseconds"}
	case value.Version:
		names = []string{"Major", "Minor", "Build", "Revision"}
	case *interp.Match:
		names = []string{"Groups", "Success", "Name", "Captures", "Index", "Length", "Value"}
	default:
		props, _ := w.r.Members(v)
		for _, p := range props {
			names = append(names, p.Name)
		}
	}
	return w.named(names)
}

// named returns the columns for property names.
func (w *Writer) named(names []string) []Column {
	cols := make([]Column, len(names))
	for i, n := range names {
		cols[i] = Column{Label: n, Value: func(v any) (any, error) { return w.r.Property(v, n) }}
	}
	return cols
}

// asList reports whether a value is shown as a list by default.
func asList(v any, n int) bool {
	switch x := v.(type) {
	case *value.Object:
		if x.Show != nil {
			return x.List
		}
	case value.TimeSpan:
		return true
	case value.Version:
		return false
	}
	return n > 4 // PowerShell's own limit for types without a view
}

func (w *Writer) format(f *Format) error {
	items := f.Items
	if len(items) == 0 {
		return nil
	}
	if f.GroupBy != "" {
		return w.grouped(f)
	}
	if f.Columns == nil && f.Kind != List && isFile(items[0]) {
		return w.files(f)
	}
	if hasHash(items) && f.Columns == nil {
		if items = hashRows(items); len(items) == 0 {
			return nil
		}
	}
	cols := f.Columns
	if cols == nil {
		cols = w.columns(items[0])
		if o, ok := items[0].(*value.Object); ok && o.TypeName() == "System.Collections.DictionaryEntry" {
			cols[0].Width = nameWidth
			for i := range cols {
				cols[i].Align = -1
			}
		}
	}
	// A text is itself, whatever the format.
	if _, text := value.Unwrap(items[0]).(string); len(cols) == 0 || text && f.Columns == nil {
		for _, v := range items {
			if err := w.line(w.plain(v)); err != nil {
				return err
			}
		}
		return nil
	}
	kind := f.Kind
	if kind == Auto {
		kind = Table
		if asList(items[0], len(cols)) {
			kind = List
		}
	}
	if kind == List {
		return w.list(cols, items)
	}
	return w.table(f, cols, items)
}

// nameWidth is the width of the column Name of a hashtable's view. Characters;
// of PowerShell's own DotNetTypes.format.ps1xml.
const nameWidth = 30

func hasHash(items []any) bool {
	_, ok := items[0].(*value.Hash)
	return ok
}

// hashRows turns hashtables into rows of Name and Value.
func hashRows(items []any) []any {
	var rows []any
	for _, v := range items {
		h, ok := v.(*value.Hash)
		if !ok {
			rows = append(rows, v)
			continue
		}
		for _, k := range h.Keys() {
			x, _ := h.Get(k)
			o := value.NewObject("System.Collections.DictionaryEntry", "Name", value.String(k), "Value", x)
			o.Show = []string{"Name", "Value"}
			rows = append(rows, o)
		}
	}
	return rows
}

func (w *Writer) grouped(f *Format) error {
	var key string
	var part []any
	flush := func() error {
		if part == nil {
			return nil
		}
		if err := w.write("\n\n   " + f.GroupBy + ": " + key + "\n"); err != nil {
			return err
		}
		sub := *f
		sub.GroupBy, sub.Items = "", part
		return w.format(&sub)
	}
	for _, v := range f.Items {
		p, err := w.r.Property(v, f.GroupBy)
		if err != nil {
			return err
		}
		if k := w.r.Text(p); part == nil || k != key {
			if err := flush(); err != nil {
				return err
			}
			key, part = k, nil
		}
		part = append(part, v)
	}
	return flush()
}

// maxEnumerated is $FormatEnumerationLimit's default.
const maxEnumerated = 4

// cell returns a property's value as a table or list shows it.
func (w *Writer) cell(c Column, v any) (string, any) {
	if strings.EqualFold(c.Label, "Length") && isDirectory(v) {
		return "", nil // every object has a length in scripts, but not in tables
	}
	x, err := c.Value(v)
	if err != nil {
		return "", nil
	}
	if c.Fmt != "" {
		if s, err := value.FormatValue(x, c.Fmt); err == nil {
			return s, x
		}
	}
	return w.short(x), x
}

// short returns a value inside of a table or list.
func (w *Writer) short(x any) string {
	switch t := x.(type) {
	case nil:
		return ""
	case value.DateTime:
		return value.FormatDate(t.Time, "G")
	case value.TimeSpan:
		return value.FormatSpan(time.Duration(t), "c")
	case *value.Hash:
		var parts []string
		for _, k := range t.Keys() {
			v, _ := t.Get(k)
			parts = append(parts, "["+value.String(k)+", "+w.r.Text(v)+"]")
		}
		return enumerate(parts)
	}
	if items, ok := value.Items(x); ok {
		var parts []string
		for _, i := range items {
			parts = append(parts, w.r.Text(i))
		}
		return enumerate(parts)
	}
	return w.r.Text(x)
}

func enumerate(parts []string) string {
	if len(parts) > maxEnumerated {
		return "{" + strings.Join(parts[:maxEnumerated], ", ") + "...}"
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (w *Writer) list(cols []Column, items []any) error {
	var b strings.Builder
	lead, tail := "\n", ""
	if w.r.Edition() == syntax.Desktop {
		lead, tail = "\n\n", "\n\n"
	}
	b.WriteString(lead)
	label := 0
	for _, c := range cols {
		label = max(label, utf8.RuneCountInString(c.Label))
	}
	for _, v := range items {
		for _, c := range cols {
			s, _ := w.cell(c, v)
			indent := "\n" + strings.Repeat(" ", label+3)
			b.WriteString(value.Pad(c.Label, -label) + " : " + strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"),
				"\n", indent) + "\n")
		}
		b.WriteString("\n")
	}
	return w.write(b.String() + tail)
}

func cut(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	if width <= 3 {
		return string(r[:max(width, 0)])
	}
	return string(r[:width-3]) + "..."
}

// table lays objects out in columns as wide as their contents; the last ones
// are left out where the console is too narrow.
func (w *Writer) table(f *Format, cols []Column, items []any) error {
	tail := "\n"
	if w.r.Edition() == syntax.Desktop {
		tail = "\n\n"
	}
	return w.write(w.rows(f, cols, items) + tail)
}

// rows is a table without the text after it.
func (w *Writer) rows(f *Format, cols []Column, items []any) string {
	cells := make([][]string, len(items))
	right := make([]bool, len(cols))
	widths := make([]int, len(cols))
	for i, c := range cols {
		widths[i] = utf8.RuneCountInString(c.Label)
		right[i] = c.Align > 0
	}
	for r, v := range items {
		cells[r] = make([]string, len(cols))
		for i, c := range cols {
			s, x := w.cell(c, v)
			if !f.Wrap {
				s, _, _ = strings.Cut(s, "\n")
				s = strings.TrimSuffix(s, "\r")
			}
			cells[r][i] = s
			for l := range strings.SplitSeq(s, "\n") {
				widths[i] = max(widths[i], utf8.RuneCountInString(l))
			}
			if r == 0 && c.Align == 0 {
				right[i] = value.IsNumber(x)
			}
		}
	}
	shown := w.fit(cols, widths)
	var b strings.Builder
	if !f.HideHeader {
		b.WriteString("\n")
		head := make([]string, shown)
		line := make([]string, shown)
		for i := range shown {
			head[i] = cols[i].Label
			line[i] = strings.Repeat("-", min(utf8.RuneCountInString(cols[i].Label), widths[i]))
		}
		w.row(&b, head, widths, right)
		w.row(&b, line, widths, right)
	}
	for _, c := range cells {
		if !f.Wrap {
			w.row(&b, c[:shown], widths, right)
			continue
		}
		for _, line := range wrap(c[:shown], widths) {
			w.row(&b, line, widths, right)
		}
	}
	return b.String()
}

// wrap returns the lines of a row whose cells are too long for their columns, or
// have several lines.
func wrap(cells []string, widths []int) [][]string {
	var rows [][]string
	for i, c := range cells {
		n := 0
		add := func(part string) {
			if n == len(rows) {
				rows = append(rows, make([]string, len(cells)))
			}
			rows[n][i] = part
			n++
		}
		for l := range strings.SplitSeq(strings.ReplaceAll(c, "\r\n", "\n"), "\n") {
			text := []rune(l)
			for len(text) > widths[i] {
				add(string(text[:widths[i]]))
				text = text[widths[i]:]
			}
			add(string(text))
		}
	}
	return rows
}

// fit narrows columns that are too wide and returns the number of columns to show.
func (w *Writer) fit(cols []Column, widths []int) int {
	used := 0
	for i := range cols {
		if cols[i].Width > 0 {
			widths[i] = cols[i].Width
		}
		room := w.width - used - 1
		rest := 2 * (len(cols) - 1 - i) // the minimum of later columns
		if widths[i] > room-rest {
			if room-rest < 3 {
				if i == 0 {
					widths[0] = max(room, 1)
					return 1
				}
				return i
			}
			widths[i] = room - rest
		}
		used += widths[i] + 1
	}
	return len(cols)
}

func (w *Writer) row(b *strings.Builder, cells []string, widths []int, right []bool) {
	var line strings.Builder
	for i, c := range cells {
		if i > 0 {
			line.WriteByte(' ')
		}
		c = cut(c, widths[i])
		if right[i] {
			line.WriteString(value.Pad(c, widths[i]))
		} else {
			line.WriteString(value.Pad(c, -widths[i]))
		}
	}
	b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}
