// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bufio"
	"fmt"
	"strings"
	"unicode/utf8"
)

// textPrinter writes the position, the line and a caret under it.
type textPrinter struct{ w *bufio.Writer }

func (p *textPrinter) Print(r Result) error {
	if r.Suppressed != "" {
		return nil
	}
	object := ""
	if r.Object != "" {
		object = " (" + r.Object + ")"
	}
	if r.File == "" {
		fmt.Fprintf(p.w, "%s: %s: %s %s: %s\n", r.Object, r.Field, r.Severity, r.Code, r.Message)
	} else {
		fmt.Fprintf(p.w, "%s:%d:%d: %s %s: %s%s\n", r.File, r.Line, r.Column, r.Severity, r.Code, r.Message, object)
	}
	if r.excerpt != "" {
		fmt.Fprintf(p.w, "  %s\n  %s\n", printable(r.excerpt), caret(r.excerpt, r.caret, r.width))
	}
	_, err := fmt.Fprintf(p.w, "  fix: %s\n", r.Fix)
	return err
}

// printable keeps control characters of a file off the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if r < ' ' || r == 0x7F || r >= 0x80 && r < 0xA0 {
			return utf8.RuneError
		}
		return r
	}, s)
}

// caret underlines width bytes, starting at a column (in bytes or runes, as the
// parser counts).
func caret(line string, column, width int) string {
	const maxTildes = 40
	runes := utf8.RuneCountInString(line)
	column = max(1, min(column, runes+1))
	width = max(1, min(width, runes-column+1, maxTildes))
	return strings.Repeat(" ", column-1) + "^" + strings.Repeat("~", width-1)
}

func (p *textPrinter) Close(Summary) error { return p.w.Flush() }
