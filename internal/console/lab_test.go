// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hinshun/vt10x"
)

// utf8Pages knows one code page and takes every other for it.
type utf8Pages struct{}

func (utf8Pages) Valid(page uint32) bool { return page == 437 || page == 65001 }

func (utf8Pages) Decode(_ uint32, data []byte) (text []uint16, rest []byte) {
	for len(data) > 0 && !utf8.FullRune(data[max(0, len(data)-utf8.UTFMax):]) {
		rest = append([]byte{data[len(data)-1]}, rest...)
		data = data[:len(data)-1]
	}
	return utf16.Encode([]rune(string(data))), rest
}

func (utf8Pages) Encode(_ uint32, text []uint16) []byte { return []byte(string(utf16.Decode(text))) }

// lab is a console with a program on one side and a terminal on the other.
type lab struct {
	testing.TB
	*Console
	term  vt10x.Terminal
	reads []Reply
}

func newLab(t testing.TB, width, height int) *lab {
	t.Helper()
	l := &lab{TB: t, Console: New(Size{width, height}, true, utf8Pages{})}
	l.term = vt10x.New(vt10x.WithSize(l.size.Width, l.size.Height))
	return l
}

// typing sends text as a terminal does and shows what it changes.
func (l *lab) typing(text string) {
	l.Helper()
	l.Input([]byte(text))
	l.settle()
}

func (l *lab) settle() {
	l.Helper()
	l.term.Resize(l.size.Width, l.size.Height)
	l.reads = append(l.reads, l.TakeReads()...)
	if _, err := l.term.Write(l.TakeOutput()); err != nil {
		l.Fatal(err)
	}
	l.check()
}

// check holds the console against what must always be so.
func (l *lab) check() {
	l.Helper()
	for _, b := range l.buffers {
		if len(b.rows) != b.size.Height || b.cursor.x < 0 || b.cursor.x >= b.size.Width ||
			b.cursor.y < 0 || b.cursor.y >= b.size.Height || b.top < 0 || b.top+b.window.Height > b.size.Height ||
			b.vt.scrollTop < 0 || b.vt.scrollTop > b.vt.scrollBottom || b.vt.scrollBottom >= b.size.Height {
			l.Fatalf("buffer of %v with %d rows, cursor %v, top %d, region %d-%d", b.size, len(b.rows), b.cursor, b.top,
				b.vt.scrollTop, b.vt.scrollBottom)
		}
		for y, row := range b.rows {
			if len(row) != b.size.Width {
				l.Fatalf("row %d of %d cells, want %d", y, len(row), b.size.Width)
			}
		}
	}
	for y := range min(l.renderer.size.Height, l.active.window.Height) {
		for x := range min(l.renderer.size.Width, l.active.window.Width) {
			if got, want := l.renderer.shown[y][x], l.active.rows[l.active.top+y][x]; got != want {
				l.Fatalf("the terminal shows %+v at %d,%d; want %+v", got, x, y, want)
			}
		}
	}
}

// do makes a call of a program and returns its answer.
func (l *lab) do(code, output uint32, size int, data []byte) []byte {
	l.Helper()
	r := l.Do(Request{Code: code, Output: output, Data: data, Size: size})
	if r.Status != 0 {
		l.Fatalf("call %#x: status %#x", code, r.Status)
	}
	l.settle()
	return r.Data
}

// write is WriteConsole.
func (l *lab) write(text string) {
	l.Helper()
	l.do(codeWriteConsole, 1, 0, bytes16(utf16.Encode([]rune(text))))
}

// outputMode and inputMode are SetConsoleMode.
func (l *lab) outputMode(mode uint32) { l.Helper(); l.do(codeSetMode, 1, 0, le32(mode)) }
func (l *lab) inputMode(mode uint32)  { l.Helper(); l.do(codeSetMode, 0, 0, le32(mode)) }

// startReading begins a read and says that it waits.
func (l *lab) startReading(code uint32, size int, data []byte) {
	l.Helper()
	if r := l.Do(Request{Code: code, Size: size, Data: data}); r.Status != StatusPending {
		l.Fatalf("read %#x: status %#x", code, r.Status)
	}
	l.settle()
}

// got returns the answer to the oldest read, which must be there.
func (l *lab) got() []byte {
	l.Helper()
	if len(l.reads) == 0 {
		l.Fatal("the read has no answer")
	}
	r := l.reads[0]
	l.reads = l.reads[1:]
	return r.Data
}

func (l *lab) gotText() string {
	l.Helper()
	return string(utf16.Decode(text16(l.got())))
}

// screen returns the terminal's content: its rows without trailing blanks, up to
// the last one that is not empty, with the cursor shown as |.
func (l *lab) screen() string {
	width, height := l.term.Size()
	cursor := l.term.Cursor()
	var rows []string
	for y := range height {
		var row strings.Builder
		for x := range width {
			if l.term.CursorVisible() && y == cursor.Y && x == cursor.X {
				row.WriteByte('|')
			}
			if c := l.term.Cell(x, y).Char; c != 0 {
				row.WriteRune(c)
			} else {
				row.WriteByte(' ')
			}
		}
		rows = append(rows, strings.TrimRight(row.String(), " "))
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n")
}

func (l *lab) want(screen string) {
	l.Helper()
	if got := l.screen(); got != screen {
		l.Errorf("the terminal shows\n%s\nwant\n%s", got, screen)
	}
}

// eventsOf reads key events from the answer to a read.
func eventsOf(data []byte) []key {
	var keys []key
	for ; len(data) >= eventSize; data = data[eventSize:] {
		if k, ok := event(data[:eventSize]).key(); ok {
			keys = append(keys, k)
		}
	}
	return keys
}

func i16(data []byte, i int) int { return int(int16(binary.LittleEndian.Uint16(data[2*i:]))) }
