// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"encoding/binary"
	"unicode/utf16"
)

// Request is a call of a program, as Wine's server hands it to the console
// host (include/wine/condrv.h).
type Request struct {
	Code   uint32
	Output uint32 // number of the screen buffer, 0 for the input
	Data   []byte
	Size   int // of the caller's buffer for the answer
}

// Reply answers a Request.
type Reply struct {
	Status uint32 // NTSTATUS
	Data   []byte
}

// Values of NTSTATUS, ntstatus.h.
const (
	statusSuccess          = 0
	StatusPending          = 0x103 // the answer comes from TakeReads
	statusInvalidHandle    = 0xC0000008
	statusInvalidParameter = 0xC000000D
	statusNotSupported     = 0xC00000BB
)

// Codes of requests: CTL_CODE(FILE_DEVICE_CONSOLE, function, METHOD_BUFFERED,
// access), condrv.h.
const (
	read, write, anyAccess = 1 << 14, 2 << 14, 0
	device                 = 0x50 << 16

	codeGetMode       = device | read | 0<<2
	codeSetMode       = device | write | 1<<2
	codeIsUnix        = device | anyAccess | 2<<2
	codeReadConsole   = device | read | 10<<2
	codeReadFile      = device | read | 11<<2
	codeReadInput     = device | read | 12<<2
	codeWriteInput    = device | write | 13<<2
	codePeek          = device | read | 14<<2
	codeGetInputInfo  = device | read | 15<<2
	codeSetInputInfo  = device | write | 16<<2
	codeGetTitle      = device | read | 17<<2
	codeSetTitle      = device | write | 18<<2
	codeBeep          = device | anyAccess | 20<<2
	codeFlush         = device | anyAccess | 21<<2
	codeGetWindow     = device | anyAccess | 22<<2
	codeReadControl   = device | read | 24<<2
	codeGetInputCount = device | read | 25<<2
	codeWriteConsole  = device | write | 30<<2
	codeWriteFile     = device | write | 31<<2
	codeReadOutput    = device | read | 32<<2
	codeWriteOutput   = device | write | 33<<2
	codeGetOutputInfo = device | read | 34<<2
	codeSetOutputInfo = device | write | 35<<2
	codeActivate      = device | write | 36<<2
	codeFillOutput    = device | write | 37<<2
	codeScroll        = device | write | 38<<2
	codeInitOutput    = device | anyAccess | 90<<2
	codeCloseOutput   = device | anyAccess | 91<<2
)

// Do answers a request. A call that waits for input is answered by TakeReads,
// now or later; the Reply's status is then StatusPending.
func (c *Console) Do(r Request) Reply {
	if r.Code == codeInitOutput {
		c.addBuffer(r.Output)
		return Reply{}
	}
	if r.Output == 0 {
		return c.doInput(r)
	}
	b := c.buffers[r.Output]
	if b == nil {
		return fail(statusInvalidHandle)
	}
	return c.doOutput(b, r)
}

func fail(status uint32) Reply { return Reply{Status: status} }

// doInput answers a request to the console's input.
func (c *Console) doInput(r Request) Reply {
	switch r.Code {
	case codeGetMode, codeSetMode:
		return doMode(&c.mode, r)
	case codeIsUnix:
		// Wine would hand the terminal itself to a program's children.
		return fail(statusNotSupported)
	case codeReadConsole, codeReadFile, codeReadInput:
		c.startRead(r.Code, r.Size, nil, 0)
		return Reply{Status: StatusPending}
	case codeReadControl:
		if len(r.Data) < 4 || r.Size < 4 {
			return fail(statusInvalidParameter)
		}
		c.startRead(r.Code, r.Size-4, text16(r.Data[4:]), binary.LittleEndian.Uint32(r.Data))
		return Reply{Status: StatusPending}
	case codeWriteInput:
		return c.writeInput(r.Data)
	case codePeek:
		var data []byte
		for _, e := range c.events[:min(len(c.events), r.Size/eventSize)] {
			data = append(data, e[:]...)
		}
		return Reply{Data: data}
	case codeGetInputInfo:
		return Reply{Data: le32(c.inputPage, c.outputPage)}
	case codeGetInputCount:
		return Reply{Data: le32(uint32(len(c.events)))}
	case codeSetInputInfo:
		return c.setInputInfo(r.Data)
	case codeGetTitle:
		return Reply{Data: append(le32(uint32(len(c.title))),
			bytes16(c.title[:min(len(c.title), max(0, r.Size-4)/2)])...)}
	case codeSetTitle:
		c.setTitle(string(utf16.Decode(text16(r.Data))))
		return Reply{}
	case codeBeep:
		c.send("\a")
		return Reply{}
	case codeFlush:
		c.events = nil
		return Reply{}
	case codeGetWindow:
		return Reply{Data: le32(0)} // no window
	}
	return fail(statusInvalidHandle)
}

// doMode answers GetConsoleMode and SetConsoleMode.
func doMode(mode *uint32, r Request) Reply {
	if r.Code == codeGetMode {
		return Reply{Data: le32(*mode)}
	}
	if len(r.Data) != 4 {
		return fail(statusInvalidParameter)
	}
	*mode = u32(r.Data, 0)
	return Reply{}
}

// writeInput queues events that a program made (WriteConsoleInput).
func (c *Console) writeInput(data []byte) Reply {
	if len(data)%eventSize != 0 {
		return fail(statusInvalidParameter)
	}
	for ; len(data) > 0; data = data[eventSize:] {
		e := event(data[:eventSize])
		if k, ok := e.key(); ok && c.mode&inProcessed != 0 && c.interrupts(k) {
			continue
		}
		if len(c.events) < 2*enough {
			c.queue(e)
		}
	}
	c.serveRead()
	return Reply{}
}

// Bits of the mask of codeSetInputInfo.
const (
	maskInputPage  = 1
	maskOutputPage = 2
)

func (c *Console) setInputInfo(data []byte) Reply {
	if len(data) != 12 {
		return fail(statusInvalidParameter)
	}
	mask, input, output := u32(data, 0), u32(data, 1), u32(data, 2)
	if mask&maskInputPage != 0 {
		if !c.pages.Valid(input) {
			return fail(statusInvalidParameter)
		}
		c.inputPage = input
	}
	if mask&maskOutputPage != 0 {
		if !c.pages.Valid(output) {
			return fail(statusInvalidParameter)
		}
		c.outputPage, c.cut = output, nil
	}
	return Reply{}
}

// setTitle sets the title of the console, and of the terminal's window.
func (c *Console) setTitle(title string) {
	c.title = utf16.Encode([]rune(title))
	shown := make([]rune, 0, len(title))
	for _, r := range title {
		// A control character would end the sequence.
		if r >= ' ' && (r < 0x7f || r > 0x9f) && len(shown) < maxStringBytes/4 {
			shown = append(shown, r)
		}
	}
	if string(shown) != c.titleShown {
		c.titleShown = string(shown)
		c.send("\x1b]0;" + c.titleShown + "\a")
	}
}

func le32(numbers ...uint32) []byte {
	var data []byte
	for _, n := range numbers {
		data = binary.LittleEndian.AppendUint32(data, n)
	}
	return data
}

func u32(data []byte, i int) uint32 { return binary.LittleEndian.Uint32(data[4*i:]) }
func u16(data []byte, i int) uint16 { return binary.LittleEndian.Uint16(data[2*i:]) }

// text16 reads UTF-16 from memory; half a unit at the end is dropped.
func text16(data []byte) []uint16 {
	text := make([]uint16, len(data)/2)
	for i := range text {
		text[i] = u16(data, i)
	}
	return text
}

func bytes16(text []uint16) []byte {
	data := make([]byte, 0, 2*len(text))
	for _, u := range text {
		data = binary.LittleEndian.AppendUint16(data, u)
	}
	return data
}
