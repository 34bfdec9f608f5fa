// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/mullion-k8s/mullion/internal/console/inband"
)

// decoder converts input from a terminal into keys, as ConPTY does.
type decoder struct {
	held []byte // the beginning of a character or a sequence
	// raw: the program wants sequences as they come
	// (ENABLE_VIRTUAL_TERMINAL_INPUT).
	raw bool
	// reports holds the reports that have arrived and have not been taken.
	reports []inband.Event
}

// maxSequence bounds an escape sequence from the terminal. A longer one counts as
// keys.
const maxSequence = 128

// pending reports whether the end of a sequence is missing. The caller waits
// for it a moment, then calls flush: a terminal sends a sequence in one piece,
// and an Escape key alone looks like the beginning of one.
func (d *decoder) pending() bool { return len(d.held) > 0 }

// flush decodes the held characters as separate keys.
func (d *decoder) flush() []key {
	rest := d.held
	d.held = nil
	if len(rest) == 0 {
		return nil
	}
	if rest[0] != 0x1b {
		return typed(utf8.RuneError, 0)
	}
	if d.raw {
		var keys []key
		for _, c := range rest {
			keys = append(keys, key{Down: true, Char: uint16(c)})
		}
		return keys
	}
	keys := press(vkEscape, 0x1b, 0)
	if len(rest) > 1 && utf8.FullRune(rest[1:]) {
		r, n := utf8.DecodeRune(rest[1:])
		keys = withAlt(r)
		rest = rest[n:]
	}
	return append(keys, d.decode(rest[1:])...)
}

// decode returns the keys of the next bytes.
func (d *decoder) decode(data []byte) []key {
	data = append(d.held, data...)
	d.held = nil
	var keys []key
	for len(data) > 0 {
		report, n, more := inband.Cut(data)
		if more {
			d.held = bytes.Clone(data)
			return keys
		}
		if n > 0 {
			d.reports = append(d.reports, report)
			data = data[n:]
			continue
		}
		if data[0] == 0x1b && !d.raw {
			k, n := sequence(data)
			if n == 0 {
				d.held = bytes.Clone(data)
				return keys
			}
			keys, data = append(keys, k...), data[n:]
			continue
		}
		if !utf8.FullRune(data) {
			d.held = bytes.Clone(data)
			return keys
		}
		r, n := utf8.DecodeRune(data)
		data = data[n:]
		if d.raw && (r < ' ' || r == 0x7f) && r != 3 {
			keys = append(keys, key{Down: true, Virtual: rawKeys[r], Char: uint16(r)})
			continue
		}
		keys = append(keys, character(r)...)
	}
	return keys
}

// rawKeys are the keys of control characters that the line editor goes by.
var rawKeys = map[rune]uint16{'\r': vkReturn, '\t': vkTab, 0x7f: vkBack}

// character returns the key of one character.
func character(r rune) []key {
	switch r {
	case 0:
		return press(vkSpace, 0, leftCtrl)
	case '\b':
		return press(vkBack, 0x7f, leftCtrl)
	case '\t':
		return press(vkTab, '\t', 0)
	case '\n':
		return press(vkReturn, '\n', leftCtrl)
	case '\r':
		return press(vkReturn, '\r', 0)
	case 0x7f:
		return press(vkBack, '\b', 0)
	}
	if r < ' ' {
		vk, with, _ := keyOf(r + '@')
		if r+'@' >= 'A' && r+'@' <= 'Z' {
			with = 0
		}
		return press(vk, uint16(r), leftCtrl|with)
	}
	return typed(r, 0)
}

// withAlt returns a key with Alt held, which terminals send as Escape and the key.
func withAlt(r rune) []key {
	switch r {
	case 0x7f:
		return press(vkBack, '\b', leftAlt)
	case '\r':
		return press(vkReturn, '\r', leftAlt)
	}
	if r < ' ' {
		vk, with, _ := keyOf(r + '@')
		return press(vk, uint16(r), leftAlt|leftCtrl|with&^shift)
	}
	return typed(r, leftAlt)
}

// sequence decodes the escape sequence that data begins with and returns its
// length, 0 if its end is missing.
func sequence(data []byte) ([]key, int) {
	if len(data) < 2 {
		return nil, 0
	}
	switch data[1] {
	case '[':
		return controlSequence(data)
	case 'O':
		if len(data) < 3 {
			return nil, 0
		}
		if vk := letterKey(data[2]); vk != 0 {
			return press(vk, 0, 0), 3
		}
	case 0x1b:
		return press(vkEscape, 0x1b, 0), 1
	}
	if !utf8.FullRune(data[1:]) {
		return nil, 0
	}
	r, n := utf8.DecodeRune(data[1:])
	return withAlt(r), 1 + n
}

// controlSequence decodes CSI PARAMETERS FINAL. One that means no key is
// dropped, as ConPTY drops it.
func controlSequence(data []byte) ([]key, int) {
	end := 2
	for end < len(data) && (data[end] < 0x40 || data[end] > 0x7e) {
		if data[end] < ' ' || end > maxSequence {
			return nil, end // not a sequence: drop its characters, but not the following ones
		}
		end++
	}
	if end == len(data) {
		return nil, 0
	}
	var p []int
	for text := range bytes.SplitSeq(data[2:end], []byte{';'}) {
		n, _ := strconv.Atoi(string(text)) // 0 stands for an absent one
		p = append(p, n)
	}
	at := func(i int) int {
		if i < len(p) {
			return p[i]
		}
		return 0
	}
	final := data[end]
	end++
	switch {
	case final == '_' && len(p) <= 6: // a key as Windows has it: win32-input-mode
		return win32Key(at), end
	case final == 'Z':
		return press(vkTab, '\t', shift), end
	case final == '~':
		if vk := numberKey(at(0)); vk != 0 {
			return press(vk, 0, modifiers(at(1))), end
		}
	default:
		if vk := letterKey(final); vk != 0 && at(0) <= 1 { // else a terminal's answer
			return press(vk, 0, modifiers(at(1))), end
		}
	}
	return nil, end
}

// win32Key reads virtual key; scan code; character; down; state; repetitions.
// Source: microsoft/terminal, doc/specs/#4999 - Improved keyboard handling in
// Conpty.
func win32Key(at func(int) int) []key {
	k := key{
		Virtual: uint16(at(0)),
		Scan:    uint16(at(1)),
		Char:    uint16(at(2)),
		Down:    at(3) != 0,
		State:   uint32(at(4)),
	}
	keys := []key{k}
	for len(keys) < min(at(5), 100) {
		keys = append(keys, k)
	}
	return keys
}

// modifiers translates xterm's parameter: 1 and a sum of 1 for Shift, 2 for
// Alt, 4 for Ctrl.
func modifiers(n int) uint32 {
	var state uint32
	if n < 2 || n > 16 {
		return 0
	}
	n--
	if n&1 != 0 {
		state |= shift
	}
	if n&2 != 0 {
		state |= leftAlt
	}
	if n&4 != 0 {
		state |= leftCtrl
	}
	return state
}

// letterKey returns the key of a sequence by its last letter.
func letterKey(final byte) uint16 {
	if 'P' <= final && final <= 'S' {
		return vkF1 + uint16(final-'P')
	}
	return map[byte]uint16{'A': vkUp, 'B': vkDown, 'C': vkRight, 'D': vkLeft, 'H': vkHome, 'F': vkEnd}[final]
}

// numberKey returns the key of "CSI n ~".
func numberKey(n int) uint16 {
	switch n {
	case 11, 12, 13, 14, 15:
		return vkF1 + uint16(n-11)
	case 17, 18, 19, 20, 21:
		return vkF1 + 5 + uint16(n-17)
	case 23, 24:
		return vkF1 + 10 + uint16(n-23)
	}
	return map[int]uint16{1: vkHome, 2: vkInsert, 3: vkDelete, 4: vkEnd, 5: vkPrior, 6: vkNext, 7: vkHome, 8: vkEnd}[n]
}
