// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"slices"
	"unicode/utf16"
)

// Modes of the input, SetConsoleMode.
const (
	inProcessed = 0x1
	inLine      = 0x2
	inEcho      = 0x4
	inWindow    = 0x8
	inMouse     = 0x10
	inInsert    = 0x20
	inQuickEdit = 0x40
	inExtended  = 0x80
	inAutoPos   = 0x100
	inVT        = 0x200

	inDefault = inProcessed | inLine | inEcho | inMouse | inInsert | inQuickEdit | inExtended | inAutoPos
)

// Control is an event that concerns all programs of a console.
type Control int

// The values of HandlerRoutine's parameter, wincon.h.
const (
	CtrlC     Control = 0
	CtrlBreak Control = 1
	CtrlClose Control = 2
)

// CodePages translates the bytes that programs read and write.
type CodePages interface {
	// Valid reports whether the system supports the code page.
	Valid(page uint32) bool
	// Decode returns the text of bytes. An incomplete character at the end is
	// returned as rest.
	Decode(page uint32, data []byte) (text []uint16, rest []byte)
	Encode(page uint32, text []uint16) []byte
}

// oemPage is the code page of a console of Windows Server, en-US.
const oemPage = 437

// Console is one console. It is not safe for concurrent use.
type Console struct {
	pages      CodePages
	buffers    map[uint32]*buffer
	active     *buffer
	size       Size // of the window
	renderer   *renderer
	decoder    decoder
	events     []event
	mode       uint32
	inputPage  uint32
	outputPage uint32
	title      []uint16
	titleShown string
	history    history
	editor     lineEditor
	editing    bool
	woken      bool // the last read ended at a control character, and is to go on
	cancelled  bool // but Ctrl+C came in between
	read       *pendingRead
	ready      []uint16 // entered, not read yet
	readyBytes []byte   // the same, of a character that did not fit
	cut        []byte   // the beginning of a character that a program wrote
	controls   []Control
	reads      []Reply
	terminal   bool
}

// pendingRead is a call that waits for input.
type pendingRead struct {
	code uint32
	size int // of the caller's buffer, in bytes
}

// New makes a console whose window is as large as the terminal, or of the
// default size where there is no terminal.
func New(size Size, terminal bool, pages CodePages) *Console {
	size = size.usable()
	c := &Console{
		pages:      pages,
		buffers:    map[uint32]*buffer{},
		size:       size,
		renderer:   newRenderer(size),
		mode:       inDefault,
		inputPage:  oemPage,
		outputPage: oemPage,
		terminal:   terminal,
	}
	c.addBuffer(1)
	c.active = c.buffers[1]
	return c
}

// addBuffer makes the screen buffer with the number that the server gave it.
func (c *Console) addBuffer(id uint32) {
	if c.buffers[id] != nil {
		return
	}
	a := attr{}
	if c.active != nil {
		a = c.active.attr
	}
	b := newBuffer(c.size, c.size, a)
	b.scrolled = func(b *buffer) {
		if c.active == b && c.terminal {
			c.renderer.scroll(b.rows[b.top])
		}
	}
	c.buffers[id] = b
}

// resize takes the terminal's new size. Programs that enabled window input get an
// event.
func (c *Console) resize(size Size) {
	size = size.usable()
	if size == c.size {
		return
	}
	c.size = size
	c.renderer.resize(size)
	for _, b := range c.buffers {
		whole := b.size == b.window
		now := Size{max(size.Width, b.size.Width), max(size.Height, b.size.Height)}
		if whole {
			now = size
		}
		lost := b.resize(now, size)
		if b == c.active && c.editing {
			c.editor.resized(b, lost)
		}
	}
	if c.mode&inWindow != 0 {
		c.queue(resizeEvent(c.active.size))
	}
}

// TakeOutput returns the output to send to the terminal now.
func (c *Console) TakeOutput() []byte {
	if !c.terminal {
		return nil
	}
	r := c.renderer
	r.paint(c.active)
	r.finish(c.active)
	out := r.out
	r.out = nil
	return out
}

// send sends bytes that do not change the screen to the terminal. Without a
// terminal it drops them.
func (c *Console) send(data string) {
	if c.terminal {
		c.renderer.out = append(c.renderer.out, data...)
	}
}

// TakeReads returns the answers to calls that waited for input.
func (c *Console) TakeReads() []Reply {
	reads := c.reads
	c.reads = nil
	return reads
}

// TakeControls returns the events to send to the console's programs.
func (c *Console) TakeControls() []Control {
	controls := c.controls
	c.controls = nil
	return controls
}

// Signaled reports whether there is input for a program that waits for it.
func (c *Console) Signaled() bool { return len(c.events) > 0 }

// enough is the number of queued events at which the terminal is no longer read:
// if a program reads no input, the queue must not grow forever.
const enough = 1 << 16

// Full reports whether the caller should stop reading the terminal for now.
func (c *Console) Full() bool { return len(c.events) >= enough }

// Input takes data from the terminal: keys, its size, and its disconnection (see
// package inband).
func (c *Console) Input(data []byte) {
	c.decoder.raw = c.mode&inVT != 0
	c.keys(c.decoder.decode(data))
	for _, r := range c.decoder.reports {
		if r.Gone {
			c.controls = append(c.controls, CtrlClose)
		} else {
			c.resize(Size{int(r.Width), int(r.Height)})
		}
	}
	c.decoder.reports = nil
	c.serveRead()
}

// Waiting reports whether the last Input ended within a sequence. If no input
// follows within a moment, the caller calls InputPaused.
func (c *Console) Waiting() bool { return c.decoder.pending() }

// InputPaused treats a sequence whose end is missing as separate keys.
func (c *Console) InputPaused() { c.keys(c.decoder.flush()) }

// keys queues keys, except Ctrl+C and Ctrl+Break.
func (c *Console) keys(keys []key) {
	for _, k := range keys {
		if c.mode&inProcessed != 0 && c.interrupts(k) {
			continue
		}
		c.queue(k.event())
	}
	c.serveRead()
}

// interrupts reports whether a key is Ctrl+C or Ctrl+Break, and acts upon it.
func (c *Console) interrupts(k key) bool {
	ctrl := k.State&anyCtrl != 0 && k.State&anyAlt == 0
	isC := ctrl && k.Virtual == 'C' && k.State&shift == 0
	isBreak := ctrl && k.Virtual == vkCancel
	if !isC && !isBreak {
		return false
	}
	if !k.Down {
		return true
	}
	control := CtrlC
	if isBreak {
		control = CtrlBreak
		c.events = nil // documented for Ctrl+Break
	}
	c.serveRead()
	c.controls = append(c.controls, control)
	c.cancelLine()
	return true
}

// cancelLine ends a read of text without text, as Ctrl+C does: the call succeeds
// with zero characters read.
func (c *Console) cancelLine() {
	c.ready, c.readyBytes = nil, nil
	c.cancelled = c.woken
	if c.read == nil || c.read.code == codeReadInput {
		return
	}
	if c.editing {
		c.editor.cursor = len(c.editor.text)
		c.editor.show(c.active)
		c.editing = false
	}
	c.history.at = len(c.history.lines)
	c.finishRead(nil, 0)
}

func (c *Console) queue(e event) { c.events = append(c.events, e) }

// finishRead answers the call that waits.
func (c *Console) finishRead(data []byte, state uint32) {
	if c.read.code == codeReadControl {
		data = append(le32(state), data...)
	}
	c.reads = append(c.reads, Reply{Data: data})
	c.read = nil
}

// serveRead answers the waiting call if enough input is there.
func (c *Console) serveRead() {
	switch {
	case c.read == nil:
	case c.read.code == codeReadInput:
		if n := min(len(c.events), c.read.size/eventSize); n > 0 {
			var data []byte
			for _, e := range c.events[:n] {
				data = append(data, e[:]...)
			}
			c.events = slices.Delete(c.events, 0, n)
			c.finishRead(data, 0)
		}
	case len(c.ready) > 0 || len(c.readyBytes) > 0:
		c.giveReady(0)
	case c.mode&inLine != 0:
		c.editLine()
	default:
		c.readCharacters()
	}
}

// editLine feeds the queued keys to the line editor until the line is entered.
func (c *Console) editLine() {
	for i, e := range c.events {
		k, ok := e.key()
		if !ok || !k.Down {
			continue
		}
		did := c.editor.key(k, &c.history)
		if did == goesOn {
			continue
		}
		c.events = slices.Delete(c.events, 0, i+1)
		c.enterLine(did, k.State)
		return
	}
	c.events = c.events[:0]
	c.editor.show(c.active)
}

// enterLine ends the editing and gives the line to the call that waits.
func (c *Console) enterLine(did outcome, state uint32) {
	line := string(c.editor.text)
	c.editing = false
	if did == woken {
		// The control character is not shown.
		c.editor.remove(len(c.editor.text)-1, len(c.editor.text))
		c.editor.show(c.active)
		c.woken = true
	} else {
		c.editor.end(c.active)
		c.history.add(line)
		line += "\r\n"
		// A line that begins with Ctrl+Z is the end of the input for ReadFile.
		if c.read.code == codeReadFile && line[0] == 0x1a && c.mode&inProcessed != 0 {
			c.finishRead(nil, 0)
			return
		}
	}
	c.ready = utf16.Encode([]rune(line))
	c.giveReady(state)
}

// readCharacters gives all characters typed so far, for a program that turned
// line input off.
func (c *Console) readCharacters() {
	limit := c.read.size
	if c.read.code != codeReadFile {
		limit /= 2
	}
	n := 0
	for n < len(c.events) && len(c.ready) < limit {
		if k, ok := c.events[n].key(); ok && k.Down && k.Char != 0 {
			c.ready = append(c.ready, k.Char)
		}
		n++
	}
	c.events = slices.Delete(c.events, 0, n)
	if len(c.ready) == 0 {
		return
	}
	if c.mode&inEcho != 0 {
		c.active.write(string(utf16.Decode(c.ready)))
	}
	c.giveReady(0)
}

// giveReady gives as much of the text that was entered as the caller's buffer
// holds.
func (c *Console) giveReady(state uint32) {
	if c.read.code != codeReadFile {
		n := min(len(c.ready), c.read.size/2)
		data := bytes16(c.ready[:n])
		c.ready = slices.Clone(c.ready[n:])
		c.finishRead(data, state)
		return
	}
	data := c.readyBytes
	n := 0
	for len(data) < c.read.size && n < len(c.ready) {
		one := 1
		if utf16.IsSurrogate(rune(c.ready[n])) && n+1 < len(c.ready) {
			one = 2
		}
		data = append(data, c.pages.Encode(c.inputPage, c.ready[n:n+one])...)
		n += one
	}
	c.ready = slices.Clone(c.ready[n:])
	fits := min(len(data), c.read.size)
	c.readyBytes = slices.Clone(data[fits:])
	c.finishRead(data[:fits], 0)
}

// startRead begins a call that waits for input. initial and wake come from
// ReadConsole's CONSOLE_READCONSOLE_CONTROL.
func (c *Console) startRead(code uint32, size int, initial []uint16, wake uint32) {
	c.read = &pendingRead{code: code, size: size}
	cancelled := c.cancelled && code == codeReadControl
	c.woken, c.cancelled = false, false
	if code != codeReadInput && size == 0 || cancelled {
		c.finishRead(nil, 0)
		return
	}
	if code != codeReadInput && c.mode&inLine != 0 && len(c.ready) == 0 && len(c.readyBytes) == 0 && !c.editing {
		c.editing = true
		c.editor.begin(c.active, string(utf16.Decode(initial)), wake, c.mode&inEcho != 0)
		c.editor.room = size / 2
		c.history.at = len(c.history.lines)
	}
	c.serveRead()
}

// Reading reports whether a call waits for input.
func (c *Console) Reading() bool { return c.read != nil }
