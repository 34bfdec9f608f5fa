// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import "github.com/charmbracelet/x/ansi"

// privateMode turns the modes of a "CSI ? … h" on and the modes of "… l" off.
func (v *vtState) privateMode(b *buffer, final byte, p ansi.Params) {
	if final != 'h' && final != 'l' {
		return
	}
	on := final == 'h'
	p.ForEach(0, func(_, mode int, _ bool) {
		switch mode {
		case 1:
			v.appCursor = on
		case 6:
			v.origin = on
			b.moveTo(0, v.home(b))
		case 7:
			b.mode &^= outWrap
			if on {
				b.mode |= outWrap
			}
		case 25:
			b.cursorVisible = on
		case 47, 1047, 1049:
			if on {
				v.enterAlternate(b)
			} else {
				v.leaveAlternate(b)
			}
		case 1048:
			if on {
				v.saved = v.current(b)
			} else {
				v.restore(b, v.saved)
			}
		case 2004:
			v.bracketedPaste = on
		}
	})
}

// enterAlternate shows an empty screen in place of the buffer's rows.
func (v *vtState) enterAlternate(b *buffer) {
	if v.main != nil {
		return
	}
	v.main = &mainScreen{rows: b.rows, cursor: v.current(b)}
	b.rows = blankRows(b.size, b.attr)
}

// leaveAlternate shows the buffer's own rows again.
func (v *vtState) leaveAlternate(b *buffer) {
	if v.main == nil {
		return
	}
	m := v.main
	v.main = nil
	b.rows = m.rows
	v.scrollTop, v.scrollBottom = 0, b.size.Height-1
	v.restore(b, m.cursor)
}
