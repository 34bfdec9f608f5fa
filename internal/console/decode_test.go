// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"slices"
	"testing"
)

// TestKeys: what ReadConsoleInput tells of each key. Source of the codes:
// winuser.h; of the sequences: xterm's ctlseqs and what ConPTY makes of them.
func TestKeys(t *testing.T) {
	down := func(vk, char uint16, state uint32) key {
		return key{Down: true, Virtual: vk, Scan: scanCode(vk), Char: char, State: state}
	}
	tests := []struct {
		keys string
		want key // the first key press that is not a modifier
	}{
		{"a", down('A', 'a', 0)}, {"A", down('A', 'A', shift)}, {"1", down('1', '1', 0)}, {"!", down('1', '!', shift)},
		{"/", down(0xbf, '/', 0)}, {"?", down(0xbf, '?', shift)}, {" ", down(vkSpace, ' ', 0)}, {"ä", down(0, 'ä', 0)},
		{"\r", down(vkReturn, '\r', 0)}, {"\n", down(vkReturn, '\n', leftCtrl)}, {"\t", down(vkTab, '\t', 0)},
		{"\x7f", down(vkBack, '\b', 0)}, {"\b", down(vkBack, 0x7f, leftCtrl)}, {"\x01", down('A', 1, leftCtrl)},
		{"\x1a", down('Z', 0x1a, leftCtrl)}, {"\x00", down(vkSpace, 0, leftCtrl)}, {"\x1c", down(0xdc, 0x1c, leftCtrl)},
		{"\x1b[A", down(vkUp, 0, enhanced)}, {"\x1bOA", down(vkUp, 0, enhanced)},
		{"\x1b[1;2C", down(vkRight, 0, shift|enhanced)}, {"\x1b[1;5D", down(vkLeft, 0, leftCtrl|enhanced)},
		{"\x1b[3;3~", down(vkDelete, 0, leftAlt|enhanced)}, {"\x1b[H", down(vkHome, 0, enhanced)},
		{"\x1b[1~", down(vkHome, 0, enhanced)}, {"\x1b[4~", down(vkEnd, 0, enhanced)},
		{"\x1b[5~", down(vkPrior, 0, enhanced)}, {"\x1b[6~", down(vkNext, 0, enhanced)}, {"\x1bOP", down(vkF1, 0, 0)},
		{"\x1b[15~", down(vkF1+4, 0, 0)}, {"\x1b[24~", down(vkF12, 0, 0)}, {"\x1b[Z", down(vkTab, '\t', shift)},
		{"\x1bx", down('X', 'x', leftAlt)}, {"\x1b\x7f", down(vkBack, '\b', leftAlt)},
		{"\x1b", down(vkEscape, 0x1b, 0)}, {"\x1b\x1b[A", down(vkEscape, 0x1b, 0)},
		{"\x1b[65;30;97;1;0;1_", down('A', 'a', 0)},
	}
	for _, tt := range tests {
		for _, split := range []bool{false, true} {
			var d decoder
			var keys []key
			if split {
				for i := range len(tt.keys) {
					keys = append(keys, d.decode([]byte(tt.keys[i:i+1]))...)
				}
			} else {
				keys = d.decode([]byte(tt.keys))
			}
			keys = append(keys, d.flush()...)
			i := slices.IndexFunc(keys, func(k key) bool {
				return k.Down && k.Virtual != vkShift && k.Virtual != vkControl && k.Virtual != vkMenu
			})
			if i < 0 || keys[i] != tt.want {
				t.Errorf("%q: %+v, want %+v", tt.keys, keys, tt.want)
			}
			held := map[uint16]bool{}
			for _, k := range keys {
				held[k.Virtual] = k.Down
			}
			for vk, down := range held {
				if down && tt.keys[len(tt.keys)-1] != '_' {
					t.Errorf("%q: key %#x stays down", tt.keys, vk)
				}
			}
		}
	}
}

// TestReadInput: a program that reads events gets them in order, as many as fit.
func TestReadInput(t *testing.T) {
	l := newLab(t, 80, 25)
	l.inputMode(0)
	l.startReading(codeReadInput, 1*eventSize, nil)
	l.typing("ab")
	if got := eventsOf(l.got()); len(got) != 1 || got[0].Char != 'a' {
		t.Errorf("%+v", got)
	}
	if got := eventsOf(l.do(codePeek, 0, 10*eventSize, nil)); len(got) != 3 || got[1].Char != 'b' {
		t.Errorf("%+v", got)
	}
	if n := u32(l.do(codeGetInputCount, 0, 4, nil), 0); n != 3 {
		t.Errorf("%d events", n)
	}
	l.do(codeFlush, 0, 0, nil)
	if l.Signaled() {
		t.Error("events after a flush")
	}
	e := key{Down: true, Virtual: 'X', Char: 'x'}.event()
	l.do(codeWriteInput, 0, 0, e[:])
	l.startReading(codeReadConsole, 100, nil)
	if got := l.gotText(); got != "x" {
		t.Errorf("%q", got)
	}
}

// TestRawInput: with ENABLE_VIRTUAL_TERMINAL_INPUT sequences come as characters.
func TestRawInput(t *testing.T) {
	l := newLab(t, 80, 25)
	l.inputMode(inVT)
	l.startReading(codeReadConsole, 100, nil)
	l.typing("a\x1b[A\x1b[200~ö\x7f")
	if got := l.gotText(); got != "a\x1b[A\x1b[200~ö\x7f" {
		t.Errorf("%q", got)
	}
}

// TestFull checks that the queue of unread keys is bounded.
func TestFull(t *testing.T) {
	l := newLab(t, 80, 25)
	for range 1 << 20 {
		if l.Full() {
			return
		}
		l.Input([]byte("0123456789"))
	}
	t.Errorf("%d events wait", len(l.events))
}
