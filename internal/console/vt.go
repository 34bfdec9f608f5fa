// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"fmt"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// maxStringBytes bounds a title or another string in an escape sequence; the rest
// of it is dropped.
const maxStringBytes = 4096

// maxParams is how many parameters of a sequence count.
const maxParams = 32

// vtState is the state that escape sequences have set for a screen buffer.
type vtState struct {
	parser                  *ansi.Parser
	scrollTop, scrollBottom int // the scrolling region, both rows included
	saved                   savedCursor
	main                    *mainScreen // while the alternate screen is shown
	insert, origin          bool
	lineDrawing             bool // G0 is the set of DEC's line drawing characters
	appCursor               bool // cursor keys send application sequences
	bracketedPaste          bool
	title                   *string // set and not yet taken
	now, answer             []byte
}

type savedCursor struct {
	at          position
	attr        attr
	origin      bool
	lineDrawing bool
}

// mainScreen is the state that an alternate screen hides.
type mainScreen struct {
	rows   [][]cell
	cursor savedCursor
}

// reset puts everything that escape sequences set back to where it begins.
func (v *vtState) reset(b *buffer) {
	*v = vtState{scrollBottom: b.size.Height - 1, title: v.title, now: v.now, answer: v.answer, parser: v.parser}
}

// resized fits the saved state to the new size.
func (v *vtState) resized(s Size) {
	if v.main == nil {
		return
	}
	rows := blankRows(s, attr{})
	for y := range min(len(v.main.rows), s.Height) {
		copy(rows[y], v.main.rows[y])
		repairWide(rows[y])
	}
	v.main.rows = rows
}

// feed takes the next character of the output.
func (v *vtState) feed(b *buffer, r rune) {
	if v.parser == nil {
		v.parser = new(ansi.Parser)
		v.parser.SetParamsSize(maxParams)
		v.parser.SetDataSize(maxStringBytes)
		v.parser.SetHandler(ansi.Handler{
			Print:     func(r rune) { v.print(b, r) },
			Execute:   func(c byte) { b.control(rune(c)) },
			HandleCsi: func(c ansi.Cmd, p ansi.Params) { v.csi(b, c, p) },
			HandleEsc: func(c ansi.Cmd) { v.esc(b, c) },
			HandleOsc: v.osc,
		})
	}
	var bytes [utf8.UTFMax]byte
	for _, c := range bytes[:utf8.EncodeRune(bytes[:], r)] {
		v.parser.Advance(c)
	}
}

// lineDrawing holds the characters of DEC's special set, for the letters from ` to ~.
const lineDrawing = "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·"

func (v *vtState) print(b *buffer, r rune) {
	if v.lineDrawing && r >= '`' && r <= '~' {
		r = []rune(lineDrawing)[r-'`']
	}
	b.put(glyph(r))
}

// esc acts upon an escape sequence without parameters.
func (v *vtState) esc(b *buffer, c ansi.Cmd) {
	switch c.Intermediate() {
	case '(':
		v.lineDrawing = c.Final() == '0'
		return
	case 0:
	default:
		return
	}
	switch c.Final() {
	case '7':
		v.saved = v.current(b)
	case '8':
		v.restore(b, v.saved)
	case 'D':
		b.lineFeed()
	case 'E':
		b.cursor.x = 0
		b.lineFeed()
	case 'M':
		b.reverseFeed()
	case 'c':
		v.leaveAlternate(b)
		v.reset(b)
		b.attr, b.cursorVisible = attr{}, true
		b.erase(position{}, position{b.size.Width - 1, b.size.Height - 1})
		b.moveTo(0, b.top)
	}
}

func (v *vtState) current(b *buffer) savedCursor {
	at := b.cursor
	at.y -= b.top
	return savedCursor{at: at, attr: b.attr, origin: v.origin, lineDrawing: v.lineDrawing}
}

func (v *vtState) restore(b *buffer, s savedCursor) {
	b.attr, v.origin, v.lineDrawing = s.attr, s.origin, s.lineDrawing
	b.moveTo(s.at.x, b.top+s.at.y)
}

// osc acts upon an operating system command. Only the title is one.
func (v *vtState) osc(cmd int, data []byte) {
	if cmd != 0 && cmd != 2 {
		return
	}
	for i, c := range data {
		if c == ';' {
			title := string(data[i+1:])
			v.title = &title
			return
		}
	}
}

// csi acts upon a control sequence.
func (v *vtState) csi(b *buffer, c ansi.Cmd, p ansi.Params) {
	switch {
	case c.Prefix() == '?' && c.Intermediate() == 0:
		v.privateMode(b, c.Final(), p)
	case c.Prefix() == '>' && c.Final() == 'c':
		v.answer = append(v.answer, "\x1b[>0;10;1c"...) // as Windows' console answers
	case c.Prefix() == 0 && c.Intermediate() == '!' && c.Final() == 'p': // soft reset
		v.origin, v.insert, v.appCursor, v.lineDrawing = false, false, false, false
		v.scrollTop, v.scrollBottom = 0, b.size.Height-1
		b.attr, b.cursorVisible = attr{}, true
	case c.Prefix() == 0 && c.Intermediate() == 0:
		if !v.move(b, c.Final(), p) && !v.change(b, c.Final(), p) {
			v.other(b, c.Final(), p)
		}
	}
}

// param returns the parameter i. Where it is absent or 0 it is 1, as most sequences
// have it.
func param(p ansi.Params, i int) int {
	n, _, _ := p.Param(i, 1)
	return max(1, min(n, maxSide))
}

// move acts upon the sequences that move the cursor. Rows count from the top of
// the window.
func (v *vtState) move(b *buffer, final byte, p ansi.Params) bool {
	n, at := param(p, 0), b.cursor
	top, bottom := b.top, b.top+b.window.Height-1
	if at.y >= v.scrollTop && at.y <= v.scrollBottom && (v.scrollTop != 0 || v.scrollBottom != b.size.Height-1) {
		top, bottom = v.scrollTop, v.scrollBottom
	}
	switch final {
	case 'A':
		at.y = max(top, at.y-n)
	case 'B', 'e':
		at.y = min(bottom, at.y+n)
	case 'C', 'a':
		at.x += n
	case 'D':
		at.x -= n
	case 'E':
		at = position{0, min(bottom, at.y+n)}
	case 'F':
		at = position{0, max(top, at.y-n)}
	case 'G', '`':
		at.x = n - 1
	case 'd':
		at.y = v.home(b) + n - 1
	case 'H', 'f':
		at = position{param(p, 1) - 1, v.home(b) + n - 1}
	case 'I':
		at.x = (at.x/tabWidth + n) * tabWidth
	case 'Z':
		at.x = max(0, (at.x+tabWidth-1)/tabWidth-n) * tabWidth
	case 's':
		v.saved = v.current(b)
		return true
	case 'u':
		v.restore(b, v.saved)
		return true
	default:
		return false
	}
	b.moveTo(at.x, min(at.y, b.top+b.window.Height-1))
	return true
}

// home returns the row that sequences call 1.
func (v *vtState) home(b *buffer) int {
	if v.origin {
		return v.scrollTop
	}
	return b.top
}

// change acts upon the sequences that erase, insert, remove and scroll.
func (v *vtState) change(b *buffer, final byte, p ansi.Params) bool {
	n, at := param(p, 0), b.cursor
	which, _, _ := p.Param(0, 0)
	last := position{b.size.Width - 1, b.top + b.window.Height - 1}
	switch final {
	case 'J':
		switch which {
		case 0:
			b.erase(at, last)
		case 1:
			b.erase(position{0, b.top}, at)
		case 2:
			b.erase(position{0, b.top}, last)
		}
	case 'K':
		switch which {
		case 0:
			b.erase(at, position{last.x, at.y})
		case 1:
			b.erase(position{0, at.y}, at)
		case 2:
			b.erase(position{0, at.y}, position{last.x, at.y})
		}
	case 'X':
		b.erase(at, position{at.x + n - 1, at.y})
	case 'P', '@':
		b.shift(at, n, final == '@')
	case 'L':
		b.insertRows(at.y, n)
	case 'M':
		b.removeRows(at.y, n)
	case 'S':
		b.scrollUp(n)
	case 'T':
		b.insertRows(v.scrollTop, n)
	default:
		return false
	}
	b.full = false
	return true
}

// shift inserts n blanks at a place, or removes n cells there. The rest of the
// row moves.
func (b *buffer) shift(at position, n int, insert bool) {
	row := b.rows[at.y]
	n = min(n, len(row)-at.x)
	if insert {
		copy(row[at.x+n:], row[at.x:])
		for x := at.x; x < at.x+n; x++ {
			row[x] = blank(b.attr)
		}
	} else {
		copy(row[at.x:], row[at.x+n:])
		for x := len(row) - n; x < len(row); x++ {
			row[x] = blank(b.attr)
		}
	}
	repairWide(row)
}

// other acts upon the remaining sequences.
func (v *vtState) other(b *buffer, final byte, p ansi.Params) {
	which, _, _ := p.Param(0, 0)
	switch final {
	case 'm':
		b.attr = b.attr.sgr(p)
	case 'h', 'l':
		if which == 4 {
			v.insert = final == 'h'
		}
	case 'r':
		top, _, _ := p.Param(0, 1)
		bottom, _, _ := p.Param(1, b.window.Height)
		v.region(b, max(1, top), bottom)
	case 'c':
		v.answer = append(v.answer, "\x1b[?1;0c"...) // a VT101, as Windows' console answers
	case 'n':
		switch which {
		case 5:
			v.answer = append(v.answer, "\x1b[0n"...)
		case 6:
			v.answer = fmt.Appendf(v.answer, "\x1b[%d;%dR", b.cursor.y-v.home(b)+1, b.cursor.x+1)
		}
	}
}

// region sets the scrolling region by rows of the window, from 1.
func (v *vtState) region(b *buffer, top, bottom int) {
	if bottom < 1 || bottom > b.window.Height {
		bottom = b.window.Height
	}
	if top >= bottom {
		return
	}
	if v.scrollTop, v.scrollBottom = b.top+top-1, b.top+bottom-1; top == 1 && bottom == b.window.Height {
		v.scrollTop, v.scrollBottom = 0, b.size.Height-1
	}
	b.moveTo(0, v.home(b))
}
