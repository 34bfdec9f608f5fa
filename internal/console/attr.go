// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import "strconv"

// color is a text or background color: the terminal's default, one of a
// palette of 256, or a red-green-blue value.
type color uint32

const (
	colorDefault color = 0
	colorPalette color = 1 << 24 // | index, in the order of ANSI
	colorRGB     color = 2 << 24 // | red<<16 | green<<8 | blue
	colorKind    color = 0xff << 24
)

// flags are the other properties of a character on the screen.
type flags uint8

const (
	flagBold flags = 1 << iota
	flagFaint
	flagItalic
	flagUnderline
	flagBlink
	flagReverse
	flagHidden
	flagStrike
)

// attr is how a character looks.
type attr struct {
	fg, bg color
	flags  flags
}

// Bits of a Windows attribute word, wincon.h.
const (
	wordIntensity  = 0x8
	wordForeground = 0xf
	wordDefault    = 0x7    // light gray on black
	wordLeading    = 0x0100 // COMMON_LVB_LEADING_BYTE
	wordTrailing   = 0x0200 // COMMON_LVB_TRAILING_BYTE
	wordReverse    = 0x4000 // COMMON_LVB_REVERSE_VIDEO
	wordUnderscore = 0x8000 // COMMON_LVB_UNDERSCORE
)

// swapped exchanges red and blue, whose bits Windows and ANSI order differently.
func swapped(index uint16) uint16 { return index&0xa | index&1<<2 | index&4>>2 }

// attrOf translates an attribute word. Windows' default colors become the
// terminal's, as in ConPTY.
func attrOf(word uint16) attr {
	var a attr
	if fg := word & wordForeground; fg != wordDefault {
		a.fg = colorPalette | color(swapped(fg))
	}
	if bg := word >> 4 & wordForeground; bg != 0 {
		a.bg = colorPalette | color(swapped(bg))
	}
	if word&wordReverse != 0 {
		a.flags |= flagReverse
	}
	if word&wordUnderscore != 0 {
		a.flags |= flagUnderline
	}
	return a
}

// word returns the attribute word that comes nearest to a.
func (a attr) word() uint16 {
	w := nearest(a.fg, wordDefault) | nearest(a.bg, 0)<<4
	if a.flags&flagBold != 0 {
		w |= wordIntensity
	}
	if a.flags&flagReverse != 0 {
		w |= wordReverse
	}
	if a.flags&flagUnderline != 0 {
		w |= wordUnderscore
	}
	return w
}

// nearest returns the index of the nearest of Windows' sixteen colors.
func nearest(c color, otherwise uint16) uint16 {
	switch c & colorKind {
	case colorPalette:
		if i := uint16(c & 0xff); i < 16 {
			return swapped(i)
		}
		return fromRGB(paletteRGB(uint8(c)))
	case colorRGB:
		return fromRGB(uint8(c>>16), uint8(c>>8), uint8(c))
	}
	return otherwise
}

// fromRGB picks the color whose channels are on where these are more than half
// of the strongest.
func fromRGB(r, g, b uint8) uint16 {
	strongest := max(r, g, b)
	var w uint16
	for bit, v := range map[uint16]uint8{4: r, 2: g, 1: b} {
		if v > strongest/2 && v >= 0x40 {
			w |= bit
		}
	}
	if strongest > 0xc0 {
		w |= wordIntensity
	}
	return w
}

// paletteRGB returns the color of an index from 16 on: a cube of 6 by 6 by 6 colors
// and 24 grays (xterm's 256 colors).
func paletteRGB(i uint8) (r, g, b uint8) {
	if i >= 232 {
		gray := 8 + 10*(i-232)
		return gray, gray, gray
	}
	level := func(n uint8) uint8 {
		if n == 0 {
			return 0
		}
		return 55 + 40*n
	}
	i -= 16
	return level(i / 36), level(i / 6 % 6), level(i % 6)
}

// sgrCodes are the parameters of "select graphic rendition" that turn each flag on.
var sgrCodes = [...]struct {
	flag flags
	code string
}{
	{flagBold, "1"}, {flagFaint, "2"}, {flagItalic, "3"}, {flagUnderline, "4"},
	{flagBlink, "5"}, {flagReverse, "7"}, {flagHidden, "8"}, {flagStrike, "9"},
}

// appendSGR appends the escape sequence that selects a, whatever was selected.
func (a attr) appendSGR(out []byte) []byte {
	out = append(out, "\x1b[0"...)
	for _, s := range sgrCodes {
		if a.flags&s.flag != 0 {
			out = append(append(out, ';'), s.code...)
		}
	}
	out = a.fg.appendSGR(out, 30)
	out = a.bg.appendSGR(out, 40)
	return append(out, 'm')
}

// appendSGR appends the parameters of a color. first is the number of the first
// color: 30 for text, 40 for the background.
func (c color) appendSGR(out []byte, first int) []byte {
	put := func(n int) { out = strconv.AppendInt(append(out, ';'), int64(n), 10) }
	switch c & colorKind {
	case colorPalette:
		switch i := int(c & 0xff); {
		case i < 8:
			put(first + i)
		case i < 16:
			put(first + 60 + i - 8)
		default:
			put(first + 8)
			put(5)
			put(i)
		}
	case colorRGB:
		put(first + 8)
		put(2)
		put(int(c >> 16 & 0xff))
		put(int(c >> 8 & 0xff))
		put(int(c & 0xff))
	}
	return out
}
