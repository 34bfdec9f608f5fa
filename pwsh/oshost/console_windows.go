// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package oshost

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

// lineSize is the size of the buffer for one read, in UTF-16 units, as in
// PowerShell's console host. Longer lines arrive in pieces.
const lineSize = 8192

// console is the console, which edits lines by itself and returns at Tab. So
// PowerShell reads lines without PSReadLine.
type console struct{ in, out windows.Handle }

// newConsole returns nil unless both streams are a console.
func newConsole(stdin io.Reader, stdout io.Writer) host.Console {
	in, ok := stdin.(*os.File)
	if !ok {
		return nil
	}
	out, ok := stdout.(*os.File)
	if !ok {
		return nil
	}
	c := console{in: windows.Handle(in.Fd()), out: windows.Handle(out.Fd())}
	var mode uint32
	if windows.GetConsoleMode(c.in, &mode) != nil || windows.GetConsoleMode(c.out, &mode) != nil {
		return nil
	}
	return c
}

// readControl is CONSOLE_READCONSOLE_CONTROL.
type readControl struct {
	length, initial, wakeupMask, keyState uint32
}

const shiftPressed = 0x10 // SHIFT_PRESSED

func (c console) ReadLine(complete func(text string, back bool) string) (string, error) {
	var line strings.Builder // the pieces of a long line
	buffer := make([]uint16, lineSize)
	control := readControl{wakeupMask: 1 << '\t'}
	control.length = uint32(unsafe.Sizeof(control))
	for {
		var n uint32
		err := windows.ReadConsole(c.in, &buffer[0], lineSize, &n, (*byte)(unsafe.Pointer(&control)))
		if err != nil {
			return line.String(), fmt.Errorf("read a line from the console: %w", err)
		}
		if n == 0 { // Ctrl+C
			return line.String(), io.EOF
		}
		control.initial = 0
		text := string(utf16.Decode(buffer[:n]))
		before, _, woken := strings.Cut(text, "\t")
		if !woken {
			line.WriteString(text)
			if strings.HasSuffix(text, "\n") {
				return line.String(), nil
			}
			continue
		}
		now := complete(before, control.keyState&shiftPressed != 0)
		units := utf16.Encode([]rune(now))
		if len(units)+2 > lineSize { // no room for the end of the line
			now, units = before, utf16.Encode([]rune(before))
		}
		if err := c.replace(before, now); err != nil {
			return "", fmt.Errorf("show a completed line: %w", err)
		}
		control.initial = uint32(copy(buffer, units))
	}
}

func (c console) Clear() error {
	var mode uint32
	err := windows.GetConsoleMode(c.out, &mode)
	if err == nil {
		err = windows.SetConsoleMode(c.out, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
	}
	if err == nil {
		const home, screen, scrolledOff = "\x1b[H", "\x1b[2J", "\x1b[3J"
		err = errors.Join(c.write(home+screen+scrolledOff), windows.SetConsoleMode(c.out, mode))
	}
	if err != nil {
		return fmt.Errorf("clear the console: %w", err)
	}
	return nil
}

// replace shows a text in the place of the one before the cursor.
func (c console) replace(was, now string) error {
	old, text := []rune(was), []rune(now)
	for len(old) > 0 && len(text) > 0 && old[0] == text[0] {
		old, text = old[1:], text[1:]
	}
	if len(old) == 0 && len(text) == 0 {
		return nil
	}
	var info windows.ConsoleScreenBufferInfo
	if err := windows.GetConsoleScreenBufferInfo(c.out, &info); err != nil {
		return err
	}
	width := int(info.Size.X)
	at := max(0, int(info.CursorPosition.Y)*width+int(info.CursorPosition.X)-cells(old))
	if err := c.move(at, width); err != nil {
		return err
	}
	rest := max(0, cells(old)-cells(text))
	if err := c.write(string(text) + strings.Repeat(" ", rest)); err != nil || rest == 0 {
		return err
	}
	return c.move(at+cells(text), width)
}

func (c console) move(at, width int) error {
	if width == 0 {
		return errors.New("the console has no columns")
	}
	return windows.SetConsoleCursorPosition(c.out, windows.Coord{X: int16(at % width), Y: int16(at / width)})
}

func (c console) write(text string) error {
	units := utf16.Encode([]rune(text))
	for len(units) > 0 {
		var n uint32
		if err := windows.WriteConsole(c.out, &units[0], uint32(len(units)), &n, nil); err != nil {
			return err
		}
		units = units[n:]
	}
	return nil
}

// wide is the table of characters that occupy two cells of a console.
var wide = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x2e80, Hi: 0xa4cf, Stride: 1}, {Lo: 0xac00, Hi: 0xd7a3, Stride: 1},
	{Lo: 0xf900, Hi: 0xfaff, Stride: 1}, {Lo: 0xfe30, Hi: 0xfe6f, Stride: 1}, {Lo: 0xff00, Hi: 0xff60, Stride: 1},
	{Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
}}

// cells returns how many cells of the screen a text takes in the console's editor,
// which shows a control character as two.
func cells(text []rune) int {
	n := 0
	for _, r := range text {
		switch {
		case r < ' ', unicode.Is(wide, r):
			n += 2
		case !unicode.Is(unicode.Mn, r):
			n++
		}
	}
	return n
}
