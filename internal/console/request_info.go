// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import "encoding/binary"

// Bits of the mask of codeSetOutputInfo.
const (
	maskCursorShape = 0x01
	maskCursorPlace = 0x02
	maskSize        = 0x04
	maskAttr        = 0x08
	maskWindow      = 0x10
	maskPopup       = 0x40
)

// Indexes of the 16-bit fields of struct condrv_output_info.
const (
	infoCursorSize = iota
	infoCursorVisible
	infoCursorX
	infoCursorY
	infoWidth
	infoHeight
	infoAttr
	infoPopup
	infoLeft
	infoTop
	infoRight
	infoBottom
	infoMaxWidth
	infoMaxHeight
	infoFontWidth
	infoFontHeight
	infoFontWeight
	infoFontFamily
	infoFields
)

// infoSize is the size of the structure: the fields and sixteen colors.
const infoSize = 2*infoFields + 4*16

// defaultColors are the colors of a console's attribute words, as COLORREF.
var defaultColors = [16]uint32{
	0x0c0c0c, 0xda3700, 0x0ea113, 0xdd963a, 0x1f0fc5, 0x981788, 0x009cc1, 0xcccccc,
	0x767676, 0xff783b, 0x0cc616, 0xd6d661, 0x5648e7, 0x9e00b4, 0xa5f1f9, 0xf2f2f2,
}

// info answers GetConsoleScreenBufferInfo and its like.
func (b *buffer) info() []byte {
	visible := 0
	if b.cursorVisible {
		visible = 1
	}
	fields := [infoFields]int{
		infoCursorSize:    b.cursorSize,
		infoCursorVisible: visible,
		infoCursorX:       b.cursor.x,
		infoCursorY:       b.cursor.y,
		infoWidth:         b.size.Width,
		infoHeight:        b.size.Height,
		infoAttr:          int(b.attr.word()),
		infoPopup:         int(b.popup),
		infoTop:           b.top,
		infoRight:         b.window.Width - 1,
		infoBottom:        b.top + b.window.Height - 1,
		infoMaxWidth:      b.window.Width,
		infoMaxHeight:     b.window.Height,
		infoFontWidth:     8,
		infoFontHeight:    16,
		infoFontWeight:    400,
		infoFontFamily:    0x36, // a fixed TrueType font
	}
	var data []byte
	for _, f := range fields {
		data = binary.LittleEndian.AppendUint16(data, uint16(f))
	}
	return append(data, le32(defaultColors[:]...)...)
}

// setInfo answers SetConsoleCursorPosition, SetConsoleTextAttribute and the
// other functions that set something of a screen buffer. Fonts are accepted and
// not kept: the terminal has its own.
func (b *buffer) setInfo(data []byte) Reply {
	if len(data) < 4+infoSize {
		return fail(statusInvalidParameter)
	}
	mask := u32(data, 0)
	field := func(i int) int { return int(int16(u16(data[4:], i))) }
	if mask&maskCursorShape != 0 {
		if n := field(infoCursorSize); n < 1 || n > 100 {
			return fail(statusInvalidParameter)
		}
		b.cursorSize, b.cursorVisible = field(infoCursorSize), field(infoCursorVisible) != 0
	}
	if mask&maskCursorPlace != 0 {
		x, y := field(infoCursorX), field(infoCursorY)
		if x < 0 || y < 0 || x >= b.size.Width || y >= b.size.Height {
			return fail(statusInvalidParameter)
		}
		b.moveTo(x, y)
	}
	if mask&maskSize != 0 {
		s := Size{field(infoWidth), field(infoHeight)}
		if s.Width < b.window.Width || s.Height < b.window.Height {
			return fail(statusInvalidParameter) // documented: not smaller than the window
		}
		b.resize(Size{min(s.Width, maxSide), min(s.Height, maxRows)}, b.window)
	}
	if mask&maskAttr != 0 {
		b.attr = attrOf(uint16(field(infoAttr)))
	}
	if mask&maskPopup != 0 {
		b.popup = uint16(field(infoPopup))
	}
	if mask&maskWindow != 0 {
		return b.setWindow(field(infoLeft), field(infoTop), field(infoRight), field(infoBottom))
	}
	return Reply{}
}

// maxRows bounds the height of a screen buffer that a program requests (Windows'
// own bound, 32,766 rows, would be 150 MB).
const maxRows = 9999

// setWindow moves the window. Its size is the terminal's, which no program
// changes; a request for another size succeeds without effect.
func (b *buffer) setWindow(left, top, right, bottom int) Reply {
	if left < 0 || top < 0 || left > right || top > bottom || right >= b.size.Width || bottom >= b.size.Height {
		return fail(statusInvalidParameter)
	}
	b.top = min(top, b.size.Height-b.window.Height)
	return Reply{}
}
