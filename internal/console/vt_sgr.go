// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import "github.com/charmbracelet/x/ansi"

// sgr applies the parameters of "select graphic rendition" to a.
func (a attr) sgr(p ansi.Params) attr {
	if len(p) == 0 {
		return attr{}
	}
	for i := 0; i < len(p); i++ {
		n, _, _ := p.Param(i, 0)
		switch {
		case n == 0:
			a = attr{}
		case n >= 1 && n <= 9:
			for _, s := range sgrCodes {
				if s.code[0] == byte('0'+n) {
					a.flags |= s.flag
				}
			}
		case n == 21, n == 4:
			a.flags |= flagUnderline
		case n == 22:
			a.flags &^= flagBold | flagFaint
		case n == 23:
			a.flags &^= flagItalic
		case n == 24:
			a.flags &^= flagUnderline
		case n == 25:
			a.flags &^= flagBlink
		case n == 27:
			a.flags &^= flagReverse
		case n == 28:
			a.flags &^= flagHidden
		case n == 29:
			a.flags &^= flagStrike
		case n >= 30 && n <= 37:
			a.fg = colorPalette | color(n-30)
		case n >= 40 && n <= 47:
			a.bg = colorPalette | color(n-40)
		case n >= 90 && n <= 97:
			a.fg = colorPalette | color(n-90+8)
		case n >= 100 && n <= 107:
			a.bg = colorPalette | color(n-100+8)
		case n == 39:
			a.fg = colorDefault
		case n == 49:
			a.bg = colorDefault
		case n == 38:
			i += extended(p, i+1, &a.fg)
		case n == 48:
			i += extended(p, i+1, &a.bg)
		}
	}
	return a
}

// extended reads 5;INDEX or 2;RED;GREEN;BLUE from parameter i on into c. It
// returns how many parameters that takes.
func extended(p ansi.Params, i int, c *color) int {
	get := func(i int) color {
		n, _, _ := p.Param(i, 0)
		return color(min(max(n, 0), 255))
	}
	switch kind, _, _ := p.Param(i, 0); kind {
	case 5:
		*c = colorPalette | get(i+1)
		return 2
	case 2:
		// 38:2::R:G:B has the number of a color space in between.
		if _, more, _ := p.Param(i, 0); more {
			if _, more, ok := p.Param(i+4, 0); ok && !more && len(p) > i+4 {
				if _, before, _ := p.Param(i+3, 0); before {
					*c = colorRGB | get(i+2)<<16 | get(i+3)<<8 | get(i+4)
					return 5
				}
			}
		}
		*c = colorRGB | get(i+1)<<16 | get(i+2)<<8 | get(i+3)
		return 4
	}
	return 0
}
