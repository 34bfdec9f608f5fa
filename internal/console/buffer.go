// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

// Size is the size of a terminal or a screen buffer, in characters.
type Size struct {
	Width, Height int
}

// Bounds of a screen buffer. A larger terminal is used only in part, and one of
// unknown size is treated as having Windows' default size.
const (
	maxSide       = 1000
	defaultWidth  = 80
	defaultHeight = 25
)

// usable returns s within the bounds.
func (s Size) usable() Size {
	if s.Width <= 0 || s.Height <= 0 {
		return Size{defaultWidth, defaultHeight}
	}
	return Size{min(s.Width, maxSide), min(s.Height, maxSide)}
}

// Modes of a screen buffer, SetConsoleMode.
const (
	outProcessed    = 0x1
	outWrap         = 0x2
	outVT           = 0x4 // ENABLE_VIRTUAL_TERMINAL_PROCESSING
	outNoAutoReturn = 0x8 // DISABLE_NEWLINE_AUTO_RETURN
)

// position is a column and a row, from 0.
type position struct{ x, y int }

// buffer is a screen buffer. Rows from top on, as many as the window has, are
// visible.
type buffer struct {
	size   Size
	window Size // at most size
	top    int
	rows   [][]cell
	cursor position
	// full: the last column has been written, and the next character begins a
	// new row. Only with escape sequences on; without, the cursor moves at once.
	full          bool
	attr          attr
	popup         uint16 // attribute word of pop-up windows; kept only
	mode          uint32
	cursorSize    int // percent of a cell
	cursorVisible bool
	vt            vtState
	// scrolled is called before the rows of the window move up by one.
	scrolled func(*buffer)
}

func newBuffer(size, window Size, a attr) *buffer {
	b := &buffer{
		size:          size,
		window:        window,
		attr:          a,
		popup:         0xf5,
		mode:          outProcessed | outWrap,
		cursorSize:    25,
		cursorVisible: true,
	}
	b.rows = blankRows(size, attr{})
	b.vt.reset(b)
	return b
}

func blankRows(s Size, a attr) [][]cell {
	rows := make([][]cell, s.Height)
	for y := range rows {
		rows[y] = blankRow(s.Width, a)
	}
	return rows
}

func blankRow(width int, a attr) []cell {
	row := make([]cell, width)
	for x := range row {
		row[x] = blank(a)
	}
	return row
}

// resize changes the size of the buffer and of its window. Where the buffer
// becomes too low for the cursor, it returns how many rows are lost at the top.
func (b *buffer) resize(size, window Size) (lost int) {
	if lost = max(0, b.cursor.y-(size.Height-1)); lost > 0 {
		b.rows = b.rows[lost:]
		b.cursor.y -= lost
		b.top = max(0, b.top-lost)
	}
	rows := blankRows(size, attr{})
	for y := range min(len(b.rows), size.Height) {
		copy(rows[y], b.rows[y])
		repairWide(rows[y])
	}
	if b.size.Height != size.Height {
		b.vt.scrollTop, b.vt.scrollBottom = 0, size.Height-1
	}
	b.rows, b.size, b.window = rows, size, Size{min(window.Width, size.Width), min(window.Height, size.Height)}
	b.cursor.x = min(b.cursor.x, size.Width-1)
	b.full = false
	b.top = min(b.top, size.Height-b.window.Height)
	b.vt.resized(size)
	b.show()
	return lost
}

// repairWide removes halves of wide characters whose other half the row has lost.
func repairWide(row []cell) {
	for x := range row {
		if row[x].wide && (x+1 == len(row) || !row[x+1].behind) {
			row[x] = blank(row[x].attr)
		}
		if row[x].behind && (x == 0 || !row[x-1].wide) {
			row[x] = blank(row[x].attr)
		}
	}
}

// show moves the window to where the cursor is.
func (b *buffer) show() {
	for b.cursor.y >= b.top+b.window.Height {
		if b.scrolled != nil {
			b.scrolled(b)
		}
		b.top++
	}
	b.top = min(b.top, b.cursor.y)
}

// put writes one character at the cursor and moves the cursor.
func (b *buffer) put(r rune) {
	w := width(r)
	if w == 0 {
		b.combine(r)
		return
	}
	w = min(w, b.size.Width)
	if b.full {
		b.full = false
		b.cursor.x = 0
		b.lineFeed()
	}
	if b.cursor.x+w > b.size.Width {
		if b.mode&outWrap != 0 {
			b.cursor.x = 0
			b.lineFeed()
		} else {
			b.cursor.x = b.size.Width - w
		}
	}
	row := b.rows[b.cursor.y]
	if b.vt.insert {
		copy(row[b.cursor.x+w:], row[b.cursor.x:])
	}
	row[b.cursor.x] = cell{r: r, attr: b.attr, wide: w == 2}
	if w == 2 {
		row[b.cursor.x+1] = cell{r: ' ', attr: b.attr, behind: true}
	}
	repairWide(row)
	b.cursor.x += w
	if b.cursor.x < b.size.Width {
		return
	}
	switch {
	case b.mode&outWrap == 0:
		b.cursor.x = b.size.Width - 1
	case b.mode&outVT != 0:
		b.cursor.x = b.size.Width - 1
		b.full = true
	default:
		b.cursor.x = 0
		b.lineFeed()
	}
}

// combine adds a mark to the character before the cursor. A hundred bytes of
// marks are more than any script puts on a character.
func (b *buffer) combine(r rune) {
	x := b.cursor.x
	if !b.full {
		x--
	}
	row := b.rows[b.cursor.y]
	if x > 0 && row[x].behind {
		x--
	}
	if x >= 0 && len(row[x].comb) < 100 {
		row[x].comb += string(r)
	}
}

// lineFeed moves the cursor one row down; at the end of the buffer, or of the
// scrolling region, the rows move up instead.
func (b *buffer) lineFeed() {
	b.full = false
	switch {
	case b.cursor.y == b.vt.scrollBottom:
		b.scrollUp(1)
	case b.cursor.y+1 < b.size.Height:
		b.cursor.y++
	}
	b.show()
}

// reverseFeed moves the cursor one row up; at the top of the scrolling region
// the rows move down instead.
func (b *buffer) reverseFeed() {
	b.full = false
	switch {
	case b.cursor.y == b.vt.scrollTop:
		b.insertRows(b.vt.scrollTop, 1)
	case b.cursor.y > 0:
		b.cursor.y--
	}
	b.show()
}

// scrollUp moves the rows of the scrolling region up by n.
func (b *buffer) scrollUp(n int) {
	whole := b.vt.scrollTop == 0 && b.vt.scrollBottom == b.size.Height-1
	for range min(n, b.size.Height) {
		if whole && b.scrolled != nil && b.top+b.window.Height == b.size.Height {
			b.scrolled(b)
		}
		b.removeRows(b.vt.scrollTop, 1)
	}
}

// removeRows removes n rows from y on; the rows below, to the end of the scrolling
// region, move up.
func (b *buffer) removeRows(y, n int) {
	end := b.vt.scrollBottom + 1
	if y < b.vt.scrollTop || y >= end {
		return
	}
	n = min(n, end-y)
	copy(b.rows[y:end], b.rows[y+n:end])
	for i := end - n; i < end; i++ {
		b.rows[i] = blankRow(b.size.Width, b.attr)
	}
}

// insertRows inserts n rows at y; the rows below move down and are lost at the end
// of the scrolling region.
func (b *buffer) insertRows(y, n int) {
	end := b.vt.scrollBottom + 1
	if y < b.vt.scrollTop || y >= end {
		return
	}
	n = min(n, end-y)
	copy(b.rows[y+n:end], b.rows[y:end])
	for i := y; i < y+n; i++ {
		b.rows[i] = blankRow(b.size.Width, b.attr)
	}
}

// erase blanks the cells from one place to another, both included.
func (b *buffer) erase(from, to position) {
	for y := max(0, from.y); y <= min(to.y, b.size.Height-1); y++ {
		left, right := 0, b.size.Width-1
		if y == from.y {
			left = from.x
		}
		if y == to.y {
			right = min(to.x, right)
		}
		for x := max(0, left); x <= right; x++ {
			b.rows[y][x] = blank(b.attr)
		}
		repairWide(b.rows[y])
	}
}

// moveTo puts the cursor to a place within the buffer.
func (b *buffer) moveTo(x, y int) {
	b.full = false
	b.cursor = position{min(max(0, x), b.size.Width-1), min(max(0, y), b.size.Height-1)}
	b.show()
}
