// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package syntax

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error is a mistake in a script's text.
type Error struct {
	Source  *Source
	At, End Pos
	Msg     string
	ID      string // FullyQualifiedErrorId, as PowerShell names it
	// Incomplete reports whether more text could complete the script. A console
	// then prompts for another line.
	Incomplete bool
}

// Error returns the message with its position, without the source line.
func (e *Error) Error() string {
	line, col := e.Source.LineCol(e.At)
	return fmt.Sprintf("line %d char %d: %s", line, col, e.Msg)
}

// LineCol returns the line and the column of an offset, both from 1; a column
// counts characters.
func (s *Source) LineCol(at Pos) (line, col int) {
	n := min(int(at), len(s.Text))
	before := s.Text[:n]
	line = strings.Count(before, "\n") + 1
	return line, utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
}

// Line returns the text of the line that holds an offset, without its end.
func (s *Source) Line(at Pos) string {
	n := min(int(at), len(s.Text))
	start := strings.LastIndexByte(s.Text[:n], '\n') + 1
	rest := s.Text[start:]
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	return strings.TrimSuffix(rest, "\r")
}

// Slice returns the text of a span.
func (s *Source) Slice(from, to Pos) string {
	n := Pos(len(s.Text))
	from, to = min(from, n), min(to, n)
	if from > to {
		return ""
	}
	return s.Text[from:to]
}

// Window returns the line with the mark under it, as PowerShell shows the place of
// an error: the line is cut around the mark when it is long.
func (s *Source) Window(from, to Pos) (text, mark string) {
	// characters kept around the mark; PowerShell 5.1's PositionMessage keeps about as many
	const before, after = 35, 40
	line := []rune(s.Line(from))
	_, col := s.LineCol(from)
	start := min(col-1, len(line))
	width := utf8.RuneCountInString(s.Slice(from, to))
	end := min(start+max(width, 1), max(len(line), start+1))
	lead := 0
	if start > before {
		lead = start - before
	}
	tail := min(len(line), max(end, start+after))
	if end > lead+before+after {
		end = min(end, lead+before+after)
		tail = min(tail, end)
	}
	text = string(line[lead:max(tail, lead)])
	pad := start - lead
	if lead > 0 {
		text, pad = "... "+text, pad+4
	}
	if tail < len(line) {
		text += " ..."
	}
	return text, strings.Repeat(" ", pad) + strings.Repeat("~", max(end-start, 1))
}
