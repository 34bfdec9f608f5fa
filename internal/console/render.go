// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"fmt"
	"unicode/utf8"
)

// renderer shows a buffer's window on a terminal. It keeps a copy of the terminal's
// content and sends the difference.
type renderer struct {
	out     []byte
	size    Size
	shown   [][]cell
	cursor  position
	attr    attr
	visible bool
	// unknown: the terminal's cursor position is unknown, as after the last column,
	// which terminals treat differently.
	unknown    bool
	alternate  bool
	appCursor  bool
	bracketed  bool
	started    bool
	everything bool // repaint all
}

func newRenderer(size Size) *renderer {
	return &renderer{size: size, shown: blankRows(size, attr{}), visible: true}
}

// resize sets the terminal's new size. Terminals reflow their lines in different
// ways, so everything is repainted.
func (r *renderer) resize(s Size) {
	r.size = s
	r.everything = true
}

// clear empties the terminal's screen.
func (r *renderer) clear() {
	r.out = append(r.out, "\x1b[0m\x1b[2J\x1b[H"...)
	r.shown = blankRows(r.size, attr{})
	r.cursor, r.attr, r.unknown = position{}, attr{}, false
}

// paint sends the changes in the rows of b's window.
func (r *renderer) paint(b *buffer) {
	r.modes(b)
	if !r.started || r.everything {
		r.started, r.everything = true, false
		r.clear()
	}
	for y := range min(r.size.Height, b.window.Height) {
		r.row(y, b.rows[b.top+y])
	}
}

// finish puts the cursor where the program has it.
func (r *renderer) finish(b *buffer) {
	at := position{min(b.cursor.x, r.size.Width-1), b.cursor.y - b.top}
	seen := at.y >= 0 && at.y < r.size.Height
	if seen && b.cursorVisible {
		r.moveTo(at.x, at.y)
	}
	r.show(seen && b.cursorVisible)
}

// modes passes on the modes that the terminal itself implements.
func (r *renderer) modes(b *buffer) {
	mode := func(now *bool, want bool, number string) bool {
		if *now == want {
			return false
		}
		*now = want
		r.out = append(append(r.out, "\x1b[?"...), number...)
		if want {
			r.out = append(r.out, 'h')
		} else {
			r.out = append(r.out, 'l')
		}
		return true
	}
	if mode(&r.alternate, b.vt.main != nil, "1049") {
		r.everything = true
	}
	mode(&r.appCursor, b.vt.appCursor, "1")
	mode(&r.bracketed, b.vt.bracketedPaste, "2004")
}

// show makes the cursor visible or hides it.
func (r *renderer) show(visible bool) {
	if r.visible == visible {
		return
	}
	r.visible = visible
	if visible {
		r.out = append(r.out, "\x1b[?25h"...)
	} else {
		r.out = append(r.out, "\x1b[?25l"...)
	}
}

// row sends the changes in one row.
func (r *renderer) row(y int, want []cell) {
	want = want[:min(len(want), r.size.Width)]
	have := r.shown[y]
	first := 0
	for first < len(want) && want[first] == have[first] {
		first++
	}
	if first == len(want) {
		return
	}
	last := len(want) - 1
	for last > first && want[last] == have[last] {
		last--
	}
	if want[first].behind && first > 0 {
		first--
	}
	// Blanks to the end of the row are cheaper erased.
	end := len(want)
	for end > first && want[end-1] == blank(attr{}) {
		end--
	}
	if len(want) == r.size.Width && last >= end && last-end >= 4 {
		last = end - 1
	} else {
		end = len(want)
	}
	for x := first; x <= last; x++ {
		if want[x].behind {
			continue
		}
		r.moveTo(x, y)
		if want[x].wide && x+1 >= r.size.Width {
			want[x] = blank(want[x].attr)
		}
		r.cell(want[x])
	}
	if end < len(want) {
		r.moveTo(end, y)
		r.selectAttr(attr{})
		r.out = append(r.out, "\x1b[K"...)
	}
	copy(have, want)
}

// cell sends one character. The cursor is at its place.
func (r *renderer) cell(c cell) {
	r.selectAttr(c.attr)
	r.out = utf8.AppendRune(r.out, c.r)
	r.out = append(r.out, c.comb...)
	r.cursor.x++
	if c.wide {
		r.cursor.x++
	}
	r.unknown = r.cursor.x >= r.size.Width
}

func (r *renderer) selectAttr(a attr) {
	if r.attr != a {
		r.attr = a
		r.out = a.appendSGR(r.out)
	}
}

// moveTo moves the terminal's cursor by the shortest sequence.
func (r *renderer) moveTo(x, y int) {
	at := r.cursor
	r.cursor = position{x, y}
	switch {
	case r.unknown || y != at.y && (x != 0 || y != at.y+1):
		r.out = fmt.Appendf(r.out, "\x1b[%d;%dH", y+1, x+1)
	case y == at.y+1:
		r.out = append(r.out, "\r\n"...)
	case x == at.x:
	case x == 0:
		r.out = append(r.out, '\r')
	case x == at.x-1:
		r.out = append(r.out, '\b')
	case x > at.x:
		r.out = fmt.Appendf(r.out, "\x1b[%dC", x-at.x)
	default:
		r.out = fmt.Appendf(r.out, "\x1b[%dD", at.x-x)
	}
	r.unknown = false
}

// scroll moves the terminal's content up by one row, in the way that lets it keep
// the first row for scrolling back. That row is brought up to date before; the
// others move on both sides and are compared later.
func (r *renderer) scroll(first []cell) {
	if !r.started || r.everything {
		r.started, r.everything = true, false
		r.clear()
	}
	r.row(0, first)
	r.selectAttr(attr{})
	r.unknown = true
	r.moveTo(0, r.size.Height-1)
	r.out = append(r.out, '\n')
	free := r.shown[0]
	copy(r.shown, r.shown[1:])
	for x := range free {
		free[x] = blank(attr{})
	}
	r.shown[len(r.shown)-1] = free
}
