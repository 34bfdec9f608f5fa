// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package view

import (
	"fmt"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// isFile reports whether a value is a file or directory, as Get-ChildItem returns it.
func isFile(v any) bool {
	o, ok := v.(*value.Object)
	return ok && o.Base == nil && len(o.Types) > 0 &&
		(o.Types[0] == "System.IO.FileInfo" || o.Types[0] == "System.IO.DirectoryInfo")
}

func isDirectory(v any) bool {
	return isFile(v) && v.(*value.Object).Types[0] == "System.IO.DirectoryInfo"
}

// files writes a table for each directory, with its name above: the view
// "children" of FileSystem.format.ps1xml.
func (w *Writer) files(f *Format) error {
	cols := w.fileColumns()
	lead, tail := "\n", "\n"
	if w.r.Edition() == syntax.Desktop {
		lead, tail = "\n\n", "\n\n"
	}
	for len(f.Items) > 0 {
		dir, n := w.parent(f.Items[0]), 1
		for n < len(f.Items) && w.parent(f.Items[n]) == dir {
			n++
		}
		heading := lead + "    Directory: " + dir + "\n"
		if w.r.Edition() == syntax.Desktop {
			heading += "\n"
		}
		text := w.rows(&Format{Wrap: f.Wrap, HideHeader: f.HideHeader}, cols, f.Items[:n])
		if err := w.write(heading + text); err != nil {
			return err
		}
		f = &Format{Wrap: f.Wrap, HideHeader: f.HideHeader, Items: f.Items[n:]}
	}
	return w.write(tail)
}

// parent returns the directory that a file is in.
func (w *Writer) parent(v any) string {
	p, err := w.r.Property(v, "PSParentPath")
	if err != nil {
		return ""
	}
	_, path, found := strings.Cut(w.r.Text(p), "::")
	if !found {
		return w.r.Text(p)
	}
	return path
}

// fileColumns have the widths of the view, with the time as the view writes it.
func (w *Writer) fileColumns() []Column {
	layout, width := "%10s  %8s", 25
	if w.r.Edition() != syntax.Desktop {
		layout, width = "%10s %8s", 26
	}
	cols := w.named([]string{"Mode", "LastWriteTime", "Length", "Name"})
	cols[0].Width, cols[0].Align = 7, -1
	cols[1].Width, cols[1].Align = width, 1
	cols[2].Width, cols[2].Align = 14, 1
	cols[3].Align = -1
	cols[1].Value = func(v any) (any, error) {
		p, err := w.r.Property(v, "LastWriteTime")
		t, ok := p.(value.DateTime)
		if err != nil || !ok {
			return p, err
		}
		return fmt.Sprintf(layout, value.FormatDate(t.Time, "d"), value.FormatDate(t.Time, "t")), nil
	}
	return cols
}
