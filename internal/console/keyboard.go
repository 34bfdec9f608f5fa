// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"slices"
	"unicode/utf16"
)

// Virtual-key codes, winuser.h.
const (
	vkCancel  = 0x03 // Ctrl+Break
	vkBack    = 0x08
	vkTab     = 0x09
	vkReturn  = 0x0d
	vkShift   = 0x10
	vkControl = 0x11
	vkMenu    = 0x12 // Alt
	vkEscape  = 0x1b
	vkSpace   = 0x20
	vkPrior   = 0x21
	vkNext    = 0x22
	vkEnd     = 0x23
	vkHome    = 0x24
	vkLeft    = 0x25
	vkUp      = 0x26
	vkRight   = 0x27
	vkDown    = 0x28
	vkInsert  = 0x2d
	vkDelete  = 0x2e
	vkF1      = 0x70
	vkF12     = 0x7b
)

// punctuation are the keys of a US keyboard that bear no letter and no digit:
// virtual-key code, scan code, character, character with Shift.
var punctuation = [...]struct {
	vk, scan       uint16
	plain, shifted rune
}{
	{0xba, 0x27, ';', ':'}, {0xbb, 0x0d, '=', '+'}, {0xbc, 0x33, ',', '<'}, {0xbd, 0x0c, '-', '_'},
	{0xbe, 0x34, '.', '>'}, {0xbf, 0x35, '/', '?'}, {0xc0, 0x29, '`', '~'}, {0xdb, 0x1a, '[', '{'},
	{0xdc, 0x2b, '\\', '|'}, {0xdd, 0x1b, ']', '}'}, {0xde, 0x28, '\'', '"'},
}

// scanRows are the letters and digits of a US keyboard in the order of their
// scan codes, with the scan code of the first.
var scanRows = [...]struct {
	first uint16
	keys  string
}{{0x02, "1234567890"}, {0x10, "QWERTYUIOP"}, {0x1e, "ASDFGHJKL"}, {0x2c, "ZXCVBNM"}}

// shiftedDigits are the characters of Shift with 0 to 9.
const shiftedDigits = ")!@#$%^&*("

// scanCode returns the scan code of a virtual key on a US keyboard, or 0.
func scanCode(vk uint16) uint16 {
	for _, row := range scanRows {
		for i, c := range row.keys {
			if uint16(c) == vk {
				return row.first + uint16(i)
			}
		}
	}
	for _, p := range punctuation {
		if p.vk == vk {
			return p.scan
		}
	}
	switch {
	case vk >= vkF1 && vk < vkF1+10:
		return 0x3b + vk - vkF1
	case vk == vkF1+10, vk == vkF12:
		return 0x57 + vk - (vkF1 + 10)
	}
	return map[uint16]uint16{
		vkCancel: 0x46, vkBack: 0x0e, vkTab: 0x0f, vkReturn: 0x1c, vkShift: 0x2a, vkControl: 0x1d, vkMenu: 0x38,
		vkEscape: 0x01, vkSpace: 0x39, vkPrior: 0x49, vkNext: 0x51, vkEnd: 0x4f, vkHome: 0x47, vkLeft: 0x4b,
		vkUp: 0x48, vkRight: 0x4d, vkDown: 0x50, vkInsert: 0x52, vkDelete: 0x53,
	}[vk]
}

// isEnhanced reports whether a key is between the letters and the number pad, which
// events mark.
func isEnhanced(vk uint16) bool {
	return vk >= vkPrior && vk <= vkDown || vk == vkInsert || vk == vkDelete || vk == vkCancel
}

// keyOf finds the key of a US keyboard that gives a character, and the modifiers to
// hold with it.
func keyOf(r rune) (vk uint16, state uint32, ok bool) {
	switch {
	case r >= 'a' && r <= 'z':
		return uint16(r - 'a' + 'A'), 0, true
	case r >= 'A' && r <= 'Z':
		return uint16(r), shift, true
	case r >= '0' && r <= '9':
		return uint16(r), 0, true
	case r == ' ':
		return vkSpace, 0, true
	}
	for i, c := range shiftedDigits {
		if c == r {
			return uint16('0' + i), shift, true
		}
	}
	for _, p := range punctuation {
		switch r {
		case p.plain:
			return p.vk, 0, true
		case p.shifted:
			return p.vk, shift, true
		}
	}
	return 0, 0, false
}

// press returns a key going down and up again, with the keys held meanwhile.
func press(vk uint16, char uint16, state uint32) []key {
	var keys []key
	held := uint32(0)
	modifiers := []struct {
		bit uint32
		vk  uint16
	}{{shift, vkShift}, {leftAlt, vkMenu}, {leftCtrl, vkControl}}
	for _, m := range modifiers {
		if state&m.bit != 0 {
			held |= m.bit
			keys = append(keys, key{Down: true, Virtual: m.vk, Scan: scanCode(m.vk), State: held})
		}
	}
	k := key{Virtual: vk, Scan: scanCode(vk), Char: char, State: state}
	if isEnhanced(vk) {
		k.State |= enhanced
	}
	k.Down = true
	keys = append(keys, k)
	k.Down = false
	keys = append(keys, k)
	for _, m := range slices.Backward(modifiers) {
		if state&m.bit != 0 {
			held &^= m.bit
			keys = append(keys, key{Virtual: m.vk, Scan: scanCode(m.vk), State: held})
		}
	}
	return keys
}

// typed returns a character typed with the modifiers of state held in addition.
func typed(r rune, state uint32) []key {
	vk, with, ok := keyOf(r)
	if ok {
		return press(vk, uint16(r), state|with)
	}
	var keys []key
	for _, u := range utf16.Encode([]rune{r}) {
		keys = append(keys, press(0, u, state)...)
	}
	return keys
}
