// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"testing"

	"github.com/mullion-k8s/mullion/internal/console/inband"
)

// FuzzOutput writes anything in any mode, in pieces. lab.settle compares what
// the terminal was sent with the screen buffer.
func FuzzOutput(f *testing.F) {
	f.Add("hello\r\n\x1b[31m\x1b[2;3r\x1b[?1049h漢\u0301\x1b[6n", uint32(vtMode), uint8(10), uint8(4))
	f.Add("\x1b]0;t\a\x1b[4h\x1b[99999L\x1b[99999M\x1b[2;1r\x1b[?6h\x1b[;H", uint32(vtMode), uint8(1), uint8(1))
	f.Add("\b\b\t\t\v\f\x00\x7f\u0085", uint32(0), uint8(3), uint8(2))
	f.Fuzz(func(t *testing.T, text string, mode uint32, width, height uint8) {
		l := newLab(t, int(width%40), int(height%20))
		l.outputMode(mode)
		half := len(text) / 2
		l.write(text[:half])
		l.typing(string(inband.Report(uint16(int(height%40)), uint16(int(width%20)))))
		l.write(text[half:])
	})
}

// FuzzInput types anything into a program that reads lines, events and
// characters in turn.
func FuzzInput(f *testing.F) {
	f.Add("abc\x1b[A\x1b[1;5D\x1a\r\x03\x1b[65;30;97;1;0;99999_\xff\xf0\x9f", uint32(inDefault), uint8(7), uint8(3))
	f.Add("\x1b[[[[;;;;99999999999999999999~\x1bO\x1b\x1b", uint32(inVT|inWindow), uint8(1), uint8(1))
	f.Fuzz(func(t *testing.T, keys string, mode uint32, width, height uint8) {
		l := newLab(t, int(width%40), int(height%20))
		l.inputMode(mode)
		for i, code := range []uint32{codeReadConsole, codeReadInput, codeReadFile, codeReadConsole} {
			l.Do(Request{Code: code, Size: 40 * (i + 1)})
			l.typing(keys)
			l.InputPaused()
			l.typing("x\r")
			l.typing(string(inband.Report(uint16(int(height%40)+i), uint16(int(width%20)+i))))
			l.settle()
			if l.Reading() {
				return // another read cannot begin
			}
		}
	})
}

// FuzzRequests hands calls of any content to the console.
func FuzzRequests(f *testing.F) {
	for _, code := range []uint32{codeWriteOutput, codeReadOutput, codeFillOutput, codeScroll, codeSetOutputInfo,
		codeSetInputInfo, codeWriteInput} {
		f.Add(code, uint32(1), uint16(8), make([]byte, 4+infoSize))
		f.Add(code, uint32(0), uint16(4), make([]byte, 24))
		f.Add(code, uint32(1), uint16(4), make([]byte, 24))
	}
	f.Fuzz(func(t *testing.T, code, output uint32, size uint16, data []byte) {
		l := newLab(t, 10, 4)
		l.Do(Request{Code: code, Output: output, Size: int(size), Data: data})
		l.settle()
		l.typing("abc\r")
	})
}
