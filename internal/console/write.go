// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

// write shows text as WriteConsole does. It returns the output to send to the
// terminal at once (a bell) and the input that answers queries of the program.
func (b *buffer) write(text string) (now, answer []byte) {
	for _, r := range text {
		switch {
		case b.mode&outProcessed == 0:
			b.put(glyph(r))
		case b.mode&outVT != 0:
			b.vt.feed(b, r)
		case r < ' ':
			b.control(r)
		default:
			b.put(glyph(r))
		}
	}
	now, answer = b.vt.now, b.vt.answer
	b.vt.now, b.vt.answer = nil, nil
	return now, answer
}

// control acts upon a control character.
func (b *buffer) control(r rune) {
	switch r {
	case '\a':
		b.vt.now = append(b.vt.now, '\a')
	case '\b':
		b.full = false
		if b.cursor.x > 0 {
			b.cursor.x--
		}
	case '\t':
		b.tab()
	case '\n', '\v', '\f':
		if r != '\n' && b.mode&outVT == 0 {
			b.put(glyph(r))
			return
		}
		if b.mode&outNoAutoReturn == 0 {
			b.cursor.x = 0
		}
		b.lineFeed()
	case '\r':
		b.full = false
		b.cursor.x = 0
	default:
		if b.mode&outVT == 0 {
			b.put(glyph(r))
		}
	}
}

// tabWidth is the distance of the console's fixed tab stops.
const tabWidth = 8

// tab moves the cursor to the next stop; without escape sequences it writes
// spaces, as WriteConsole is documented to.
func (b *buffer) tab() {
	if b.mode&outVT != 0 {
		b.cursor.x = min(b.size.Width-1, (b.cursor.x/tabWidth+1)*tabWidth)
		return
	}
	for range tabWidth - b.cursor.x%tabWidth {
		b.put(' ')
		if b.cursor.x == 0 {
			return
		}
	}
}
