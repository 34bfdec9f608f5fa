// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import "encoding/binary"

// event is an INPUT_RECORD as it lies in memory: a type, two bytes of padding,
// and 16 bytes by type (wincon.h).
type event [eventSize]byte

const eventSize = 20

// Types of events.
const (
	typeKey    = 1
	typeResize = 4 // WINDOW_BUFFER_SIZE_EVENT
)

// Bits of a key event's dwControlKeyState.
const (
	rightAlt  = 0x01
	leftAlt   = 0x02
	rightCtrl = 0x04
	leftCtrl  = 0x08
	shift     = 0x10
	enhanced  = 0x100

	anyAlt  = rightAlt | leftAlt
	anyCtrl = rightCtrl | leftCtrl
)

// key is a key event.
type key struct {
	Down    bool
	Virtual uint16 // virtual-key code
	Scan    uint16
	Char    uint16 // UTF-16, 0 for a key without a character
	State   uint32 // dwControlKeyState
}

// event makes an Event of a key.
func (k key) event() event {
	var e event
	le := binary.LittleEndian
	le.PutUint16(e[0:], typeKey)
	if k.Down {
		e[4] = 1
	}
	le.PutUint16(e[8:], 1) // wRepeatCount
	le.PutUint16(e[10:], k.Virtual)
	le.PutUint16(e[12:], k.Scan)
	le.PutUint16(e[14:], k.Char)
	le.PutUint32(e[16:], k.State)
	return e
}

// key reads a key event; ok is false for an event of another type.
func (e event) key() (k key, ok bool) {
	le := binary.LittleEndian
	if le.Uint16(e[0:]) != typeKey {
		return k, false
	}
	return key{
		Down:    le.Uint32(e[4:]) != 0,
		Virtual: le.Uint16(e[10:]),
		Scan:    le.Uint16(e[12:]),
		Char:    le.Uint16(e[14:]),
		State:   le.Uint32(e[16:]),
	}, true
}

// resizeEvent reports the new size of the active screen buffer to a program that
// enabled such events.
func resizeEvent(s Size) event {
	var e event
	le := binary.LittleEndian
	le.PutUint16(e[0:], typeResize)
	le.PutUint16(e[4:], uint16(s.Width))
	le.PutUint16(e[6:], uint16(s.Height))
	return e
}
