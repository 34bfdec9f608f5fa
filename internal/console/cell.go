// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// cell is one place on the screen.
type cell struct {
	r    rune
	comb string // marks that combine with r
	attr attr
	// wide: r takes this cell and the next. behind: this cell is the second half.
	wide, behind bool
}

func blank(a attr) cell { return cell{r: ' ', attr: attr{fg: a.fg, bg: a.bg}} }

// width is how many cells a character takes: 0 for marks, 2 for wide ones.
func width(r rune) int {
	switch {
	case r < 0x300: // the most frequent
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	return ansi.StringWidth(string(r))
}

// glyph returns the character shown for a control character that the console
// does not interpret: a picture of code page 437.
func glyph(r rune) rune {
	switch {
	case r == 0:
		return ' '
	case r < ' ':
		return []rune("\x00☺☻♥♦♣♠•◘○◙♂♀♪♫☼►◄↕‼¶§▬↨↑↓→←∟↔▲▼")[r]
	case r == 0x7f:
		return '⌂'
	case r < 0xa0 && r > 0x7f:
		return '?'
	}
	return r
}
