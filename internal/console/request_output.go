// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"encoding/binary"
	"unicode/utf16"
)

// doOutput answers a request to a screen buffer.
func (c *Console) doOutput(b *buffer, r Request) Reply {
	switch r.Code {
	case codeGetMode, codeSetMode:
		return doMode(&b.mode, r)
	case codeIsUnix:
		return fail(statusNotSupported)
	case codeWriteConsole:
		c.writeText(b, text16(r.Data))
		return Reply{}
	case codeWriteFile:
		text, rest := c.pages.Decode(c.outputPage, append(c.cut, r.Data...))
		c.cut = rest
		c.writeText(b, text)
		return Reply{}
	case codeReadOutput:
		return b.readOutput(r)
	case codeWriteOutput:
		return b.writeOutput(r)
	case codeGetOutputInfo:
		data := b.info()
		return Reply{Data: data[:min(len(data), r.Size)]}
	case codeSetOutputInfo:
		return b.setInfo(r.Data)
	case codeActivate:
		c.active = b
		return Reply{}
	case codeFillOutput:
		return b.fill(r)
	case codeScroll:
		return b.scrollRect(r.Data)
	case codeCloseOutput:
		if b != c.active {
			delete(c.buffers, r.Output)
		}
		return Reply{}
	}
	return fail(statusInvalidHandle)
}

// writeText shows a program's output.
func (c *Console) writeText(b *buffer, text []uint16) {
	// Half a character at the end of one call belongs to the next; it is rare
	// enough to be shown as replacement characters.
	now, answer := b.write(string(utf16.Decode(text)))
	if b.vt.title != nil {
		c.setTitle(*b.vt.title)
		b.vt.title = nil
	}
	if b == c.active {
		c.send(string(now))
	}
	for _, char := range string(answer) {
		c.queue(key{Down: true, Char: uint16(char)}.event())
	}
	if len(answer) > 0 {
		c.serveRead()
	}
}

// Modes of reading and writing cells, enum char_info_mode.
const (
	modeText = iota
	modeAttr
	modeBoth
)

// cellSize returns the size of a cell in memory by mode.
func cellSize(mode uint32) int {
	if mode == modeBoth {
		return 4 // CHAR_INFO
	}
	return 2
}

// char returns the character that a program reads from a cell.
func (c cell) char() uint16 {
	if c.r > 0xffff {
		return 0xfffd
	}
	return uint16(c.r)
}

// attribute returns the attribute word that a program reads from a cell.
func (c cell) attribute() uint16 {
	w := c.attr.word()
	if c.wide {
		w |= wordLeading
	}
	if c.behind {
		w |= wordTrailing
	}
	return w
}

// append appends a cell to an answer.
func (c cell) append(data []byte, mode uint32) []byte {
	le := binary.LittleEndian
	switch mode {
	case modeText:
		return le.AppendUint16(data, c.char())
	case modeAttr:
		return le.AppendUint16(data, c.attribute())
	}
	return le.AppendUint16(le.AppendUint16(data, c.char()), c.attribute())
}

// set changes a cell to a program's data.
func (c *cell) set(data []byte, mode uint32) {
	switch mode {
	case modeText:
		*c = cell{r: glyph(rune(u16(data, 0))), attr: c.attr}
	case modeAttr:
		c.attr = attrOf(u16(data, 0))
	case modeBoth:
		*c = cell{r: glyph(rune(u16(data, 0))), attr: attrOf(u16(data, 1))}
	}
}

// rectangle returns a SMALL_RECT in memory.
func rectangle(left, top, right, bottom int) []byte {
	var data []byte
	for _, n := range []int{left, top, right, bottom} {
		data = binary.LittleEndian.AppendUint16(data, uint16(n))
	}
	return data
}

const rectangleSize = 8

// readOutput answers ReadConsoleOutput, ReadConsoleOutputCharacter and
// ReadConsoleOutputAttribute.
func (b *buffer) readOutput(r Request) Reply {
	if len(r.Data) != 16 {
		return fail(statusInvalidParameter)
	}
	x, y, mode, across := int(u32(r.Data, 0)), int(u32(r.Data, 1)), u32(r.Data, 2), int(u32(r.Data, 3))
	inside := x < b.size.Width && y < b.size.Height
	var data []byte
	switch mode {
	case modeText, modeAttr:
		if !inside {
			return Reply{}
		}
		for n := r.Size / 2; n > 0 && y < b.size.Height; n-- {
			data = b.rows[y][x].append(data, mode)
			if x++; x == b.size.Width {
				x, y = 0, y+1
			}
		}
	case modeBoth:
		if !inside || across == 0 || r.Size < rectangleSize {
			return fail(statusInvalidParameter)
		}
		down := min((r.Size-rectangleSize)/(across*cellSize(mode)), b.size.Height-y)
		across = min(across, b.size.Width-x)
		data = rectangle(x, y, x+across-1, y+down-1)
		for _, row := range b.rows[y : y+down] {
			for _, c := range row[x : x+across] {
				data = c.append(data, mode)
			}
		}
	default:
		return fail(statusInvalidParameter)
	}
	return Reply{Data: data}
}

// writeOutput answers WriteConsoleOutput, WriteConsoleOutputCharacter and
// WriteConsoleOutputAttribute.
func (b *buffer) writeOutput(r Request) Reply {
	if len(r.Data) < 16 || r.Size != 4 && r.Size != rectangleSize {
		return fail(statusInvalidParameter)
	}
	left, top, mode, across := int(u32(r.Data, 0)), int(u32(r.Data, 1)), u32(r.Data, 2), int(u32(r.Data, 3))
	if mode > modeBoth || r.Size == rectangleSize && across == 0 {
		return fail(statusInvalidParameter)
	}
	cells := r.Data[16:]
	count := len(cells) / cellSize(mode)
	if left >= b.size.Width {
		return Reply{}
	}
	wrote := 0
	for i := range count {
		x, y := (left+i)%b.size.Width, top+(left+i)/b.size.Width
		if across != 0 {
			x, y = left+i%across, top+i/across
		}
		if y >= b.size.Height {
			break
		}
		wrote++
		if x < b.size.Width {
			b.rows[y][x].set(cells[i*cellSize(mode):], mode)
		}
	}
	for y := top; y < min(b.size.Height, top+count); y++ {
		repairWide(b.rows[y])
	}
	if r.Size == rectangleSize {
		return Reply{Data: rectangle(left, top, min(left+across, b.size.Width)-1,
			min(top+count/across, b.size.Height)-1)}
	}
	return Reply{Data: le32(uint32(wrote))}
}

// fill answers FillConsoleOutputCharacter and FillConsoleOutputAttribute.
func (b *buffer) fill(r Request) Reply {
	if len(r.Data) != 24 || r.Size != 4 {
		return fail(statusInvalidParameter)
	}
	x, y, mode, count := int(int32(u32(r.Data, 0))), int(int32(u32(r.Data, 1))), u32(r.Data, 2),
		int(int32(u32(r.Data, 3)))
	if mode > modeBoth || x < 0 || y < 0 {
		return fail(statusInvalidParameter)
	}
	char := r.Data[20:24] // a character and an attribute
	if mode == modeAttr {
		char = char[2:]
	}
	filled := 0
	for at := y*b.size.Width + x; filled < count && at < b.size.Width*b.size.Height; at++ {
		b.rows[at/b.size.Width][at%b.size.Width].set(char, mode)
		filled++
	}
	for _, row := range b.rows {
		repairWide(row)
	}
	return Reply{Data: le32(uint32(filled))}
}

// scrollRect answers ScrollConsoleScreenBuffer.
func (b *buffer) scrollRect(data []byte) Reply {
	if len(data) != 24 {
		return fail(statusInvalidParameter)
	}
	at := func(i int) int { return int(int16(u16(data, i))) }
	left, top, right, bottom := at(0), at(1), at(2), at(3)
	toX, toY := at(4), at(5)
	clipLeft, clipTop := max(0, at(6)), max(0, at(7))
	clipRight, clipBottom := min(at(8), b.size.Width-1), min(at(9), b.size.Height-1)
	if left < 0 || top < 0 || right >= b.size.Width || bottom >= b.size.Height || left > right || top > bottom ||
		clipLeft > clipRight || clipTop > clipBottom {
		return fail(statusInvalidParameter)
	}
	var moved [][]cell
	for y := top; y <= bottom; y++ {
		moved = append(moved, append([]cell(nil), b.rows[y][left:right+1]...))
	}
	inClip := func(x, y int) bool { return x >= clipLeft && x <= clipRight && y >= clipTop && y <= clipBottom }
	var empty cell
	empty.set(data[20:24], modeBoth)
	for y := top; y <= bottom; y++ {
		for x := left; x <= right; x++ {
			if inClip(x, y) {
				b.rows[y][x] = empty
			}
		}
	}
	for i, row := range moved {
		for j, c := range row {
			if x, y := toX+j, toY+i; inClip(x, y) {
				b.rows[y][x] = c
			}
		}
	}
	for _, row := range b.rows {
		repairWide(row)
	}
	return Reply{}
}
