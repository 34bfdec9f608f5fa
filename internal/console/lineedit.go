// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"slices"
	"unicode"
	"unicode/utf16"
)

// maxLine bounds a line, in characters. Typed lines are shorter; longer pasted text
// is truncated.
const maxLine = 1 << 16

// lineEditor edits one line for a program that reads lines. It shows the line
// in the active screen buffer, unless the program turned that off.
type lineEditor struct {
	text   []rune
	cursor int
	high   uint16 // first half of a character outside the basic plane
	wake   uint32 // control characters that end the read, as bits
	room   int    // UTF-16 units that the caller's buffer holds
	insert bool
	echo   bool
	// Where the line begins on the screen, and how many cells it took when it
	// was last shown. start.y is above the buffer, and negative, once the
	// beginning has scrolled out.
	start position
	cells int
	shown []rune
}

// begin starts a line at the cursor. initial is text that stands there already.
func (e *lineEditor) begin(b *buffer, initial string, wake uint32, echo bool) {
	*e = lineEditor{text: []rune(initial), wake: wake, insert: true, echo: echo, start: b.cursor}
	e.cursor = len(e.text)
	e.shown = slices.Clone(e.text)
	e.cells = cellsOf(e.text)
	e.start = position{b.cursor.x - e.cells, b.cursor.y}
	for ; e.start.x < 0; e.start.y-- {
		e.start.x += b.size.Width
	}
}

// shownAs is how the line editor shows a character: control characters as a
// caret and a letter.
func shownAs(r rune) []rune {
	if r < ' ' {
		return []rune{'^', r + '@'}
	}
	return []rune{r}
}

func cellsOf(text []rune) int {
	n := 0
	for _, r := range text {
		for _, s := range shownAs(r) {
			n += width(s)
		}
	}
	return n
}

// show brings the screen up to date: it writes the changes, blanks the rest of a
// longer line, and puts the cursor to its place.
func (e *lineEditor) show(b *buffer) {
	if !e.echo {
		return
	}
	if len(e.shown) == 0 && e.cells == 0 {
		e.start = b.cursor // the program may have written meanwhile
	}
	same := 0
	for same < min(len(e.text), len(e.shown)) && e.text[same] == e.shown[same] {
		same++
	}
	if same < len(e.text) || same < len(e.shown) {
		at := cellsOf(e.text[:same])
		e.goTo(b, at)
		for _, r := range e.text[same:] {
			for _, s := range shownAs(r) {
				e.put(b, s, at)
				at += width(s)
			}
		}
		for ; e.cells > at; at++ {
			e.put(b, ' ', at)
		}
		e.cells, e.shown = cellsOf(e.text), slices.Clone(e.text)
	}
	e.goTo(b, cellsOf(e.text[:e.cursor]))
}

// put writes a character at a cell of the line, and follows the line when the
// screen scrolls. Cells that have scrolled out of the screen are not written.
func (e *lineEditor) put(b *buffer, r rune, cell int) {
	if e.start.y < 0 && e.row(b, cell) < 0 {
		return
	}
	if e.start.y < 0 && e.row(b, cell) == 0 && b.cursor.y == 0 {
		e.goTo(b, cell)
	}
	mode, before := b.mode, b.cursor
	b.mode = mode&^outVT | outWrap | outProcessed
	b.put(r)
	b.mode = mode
	// The cursor has wrapped, and is still in the same row: the rows moved up.
	if width(r) > 0 && b.cursor.x <= before.x && b.cursor.y == before.y {
		e.start.y--
	}
}

// row returns the row of a cell of the line.
func (e *lineEditor) row(b *buffer, cell int) int {
	return e.start.y + (e.start.x+cell)/b.size.Width
}

// resized keeps the line after its screen buffer has got another size, and lost
// rows at the top.
func (e *lineEditor) resized(b *buffer, lost int) {
	e.start = position{min(e.start.x, b.size.Width-1), e.start.y - lost}
	e.shown = nil
	e.show(b)
}

// goTo moves the cursor to a cell of the line.
func (e *lineEditor) goTo(b *buffer, cell int) {
	b.moveTo((e.start.x+cell)%b.size.Width, e.row(b, cell))
}

// end moves the cursor behind the line and to a new row.
func (e *lineEditor) end(b *buffer) {
	if !e.echo {
		return
	}
	e.cursor = len(e.text)
	e.show(b)
	b.full = false
	b.cursor.x = 0
	b.lineFeed()
}

// outcome is the effect of a key on a line.
type outcome int

const (
	goesOn outcome = iota
	entered
	woken // by a control character that the program requested
)

// key acts upon a key that went down.
func (e *lineEditor) key(k key, h *history) outcome {
	ctrl := k.State&anyCtrl != 0
	alt := k.State&anyAlt != 0
	if k.Char != 0 && k.Char < ' ' && e.wake&(1<<k.Char) != 0 {
		return e.wakeUp(rune(k.Char))
	}
	switch {
	case k.Virtual == vkReturn:
		return entered
	case ctrl && !alt && e.controlKey(k):
	case !ctrl && !alt && e.editKey(k, h):
	case k.Virtual == vkDelete && ctrl, isEnhanced(k.Virtual):
	case k.Char != 0:
		e.char(k.Char)
	}
	return goesOn
}

// wakeUp ends the read at the cursor with a control character. The text behind the
// cursor is lost, as it is since github.com/microsoft/terminal/pull/16718, and "cmd
// /?" documents it. A line that would not fit into the caller's buffer goes on.
func (e *lineEditor) wakeUp(char rune) outcome {
	if len(utf16.Encode(e.text[:e.cursor])) >= e.room {
		return goesOn
	}
	e.text = append(e.text[:e.cursor:e.cursor], char)
	e.cursor++
	return woken
}

// editKey acts upon the keys that edit without Ctrl and Alt, and reports
// whether k is one.
func (e *lineEditor) editKey(k key, h *history) bool {
	switch k.Virtual {
	case vkLeft:
		e.cursor = max(0, e.cursor-1)
	case vkRight:
		if e.cursor < len(e.text) {
			e.cursor++
		} else {
			e.copyLast(h, 1)
		}
	case vkHome:
		e.cursor = 0
	case vkEnd:
		e.cursor = len(e.text)
	case vkBack:
		if e.cursor > 0 {
			e.remove(e.cursor-1, e.cursor)
		}
	case vkDelete:
		if e.cursor < len(e.text) {
			e.remove(e.cursor, e.cursor+1)
		}
	case vkInsert:
		e.insert = !e.insert
	case vkEscape:
		e.remove(0, len(e.text))
	case vkUp:
		e.recall(h, -1)
	case vkF1 + 4:
		e.recall(h, -1)
	case vkDown:
		e.recall(h, 1)
	case vkPrior:
		e.recall(h, -historySize)
	case vkNext:
		e.recall(h, historySize)
	case vkF1:
		e.copyLast(h, 1)
	case vkF1 + 2:
		e.copyLast(h, maxLine)
	case vkF1 + 7:
		if line, ok := h.search(string(e.text[:e.cursor])); ok {
			at := e.cursor
			e.replace(line)
			e.cursor = min(at, len(e.text))
		}
	default:
		return k.Virtual > vkF1 && k.Virtual <= vkF12
	}
	return true
}

// controlKey acts upon the keys that edit together with Ctrl.
func (e *lineEditor) controlKey(k key) bool {
	switch k.Virtual {
	case vkLeft:
		e.cursor = e.wordBefore()
	case vkRight:
		e.cursor = e.wordAfter()
	case vkHome:
		e.remove(0, e.cursor)
	case vkEnd:
		e.remove(e.cursor, len(e.text))
	case vkBack:
		e.remove(e.wordBefore(), e.cursor)
	case 'H':
		return e.editKey(key{Virtual: vkBack}, nil)
	default:
		return false
	}
	return true
}

// recall puts a line of the history in place of the line.
func (e *lineEditor) recall(h *history, n int) {
	if line, ok := h.recall(n); ok {
		e.replace(line)
	}
}

func (e *lineEditor) replace(line string) {
	e.text = []rune(line)
	e.cursor = len(e.text)
}

// copyLast copies n characters of the line entered before from the same place.
func (e *lineEditor) copyLast(h *history, n int) {
	last := []rune(h.last())
	if e.cursor >= len(last) {
		return
	}
	end := min(len(last), e.cursor+n)
	e.text = append(e.text[:e.cursor:e.cursor],
		append(slices.Clone(last[e.cursor:end]), e.text[min(len(e.text), end):]...)...)
	e.cursor = end
}

func (e *lineEditor) wordBefore() int {
	at := e.cursor
	for at > 0 && unicode.IsSpace(e.text[at-1]) {
		at--
	}
	for at > 0 && !unicode.IsSpace(e.text[at-1]) {
		at--
	}
	return at
}

func (e *lineEditor) wordAfter() int {
	at := e.cursor
	for at < len(e.text) && !unicode.IsSpace(e.text[at]) {
		at++
	}
	for at < len(e.text) && unicode.IsSpace(e.text[at]) {
		at++
	}
	return at
}

func (e *lineEditor) remove(from, to int) {
	e.text = slices.Delete(e.text, from, to)
	switch {
	case e.cursor >= to:
		e.cursor -= to - from
	case e.cursor > from:
		e.cursor = from
	}
}

// char enters a character, which may come in two halves.
func (e *lineEditor) char(u uint16) {
	r := rune(u)
	if utf16.IsSurrogate(r) {
		if e.high == 0 {
			e.high = u
			return
		}
		r = utf16.DecodeRune(rune(e.high), r)
	}
	e.high = 0
	e.insertRune(r)
}

func (e *lineEditor) insertRune(r rune) {
	switch {
	case len(e.text) >= maxLine:
		return
	case e.insert || e.cursor == len(e.text):
		e.text = slices.Insert(e.text, e.cursor, r)
	default:
		e.text[e.cursor] = r
	}
	e.cursor++
}
