// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"strings"
	"testing"

	"github.com/hinshun/vt10x"

	"github.com/mullion-k8s/mullion/internal/console/inband"
)

const vtMode = outProcessed | outWrap | outVT

// TestWriting writes text to a console of 10 by 4. Source: "High-Level Console
// Modes" and "Console Virtual Terminal Sequences",
// learn.microsoft.com/windows/console.
func TestWriting(t *testing.T) {
	tests := []struct {
		name   string
		mode   uint32
		text   string
		screen string
	}{
		{"lines", 3, "one\r\ntwo\r\n", "one\ntwo\n|"},
		{"line feeds return", 3, "one\ntwo", "one\ntwo|"},
		{"line feeds that do not return", vtMode | outNoAutoReturn, "one\ntwo", "one\n   two|"},
		{"wrap", 3, "0123456789ab", "0123456789\nab|"},
		{"wrap at once", 3, "0123456789", "0123456789\n|"},
		{"wrap late", vtMode, "0123456789", "012345678|9"},
		{"wrap late, then text", vtMode, "0123456789a", "0123456789\na|"},
		{"wrap late, then a new line", vtMode, "0123456789\r\na", "0123456789\na|"},
		{"no wrap", outProcessed, "0123456789ab", "012345678|b"},
		{"scroll", 3, "1\n2\n3\n4\n5", "2\n3\n4\n5|"},
		{"backspace", 3, "abc\b\bX", "aX|c"},
		{"tab", 3, "a\tb", "a       b|"},
		{"tab in escape mode moves only", vtMode, "abcdefghij\r\tX", "abcdefghX|j"},
		{"carriage return", 3, "abc\rX", "X|bc"},
		{"unprocessed", 0, "a\r\nb\x1b", "a♪◙b←|"},
		{"escape without escape mode", 3, "\x1b[31mx", "←[31mx|"},
		{"other control characters", 3, "a\x01\x0b\x0cb", "a☺♂♀b|"},
		{"combining", vtMode, "e\u0301x", "e\u0301x|"},
		{"cursor", vtMode, "\x1b[2;3Hx\x1b[Ay\x1b[2Bz\x1b[2Dw", "   y\n  x\n   w|z"},
		{"columns and rows", vtMode, "\x1b[3G3\x1b[2d2\x1b[E1\x1b[F0", "  3\n0|  2\n1"},
		{"save and restore", vtMode, "a\x1b7\x1b[3;3Hx\x1b8b\x1b[sc\x1b[ud", "abd|\n\n  x"},
		{"erase in the row", vtMode, "abcdef\x1b[3D\x1b[K\r\nabcdef\x1b[3D\x1b[1K\r\nabc\x1b[2K", "abc\n    ef\n   |"},
		{"erase in the screen", vtMode, "ab\r\ncd\r\nef\x1b[2;2H\x1b[J", "ab\nc|"},
		{"erase before", vtMode, "ab\r\ncd\r\nef\x1b[2;1H\x1b[1J", "\n| d\nef"},
		{"erase all", vtMode, "ab\r\ncd\x1b[2J\x1b[Hx", "x|"},
		{"characters", vtMode, "abcdef\x1b[4G\x1b[2P\r\nabc\x1b[2G\x1b[2@x\r\nabcdef\x1b[2G\x1b[2X",
			"abcf\nax bc\na|  def"},
		{"lines in and out", vtMode, "1\r\n2\r\n3\x1b[2H\x1b[Lx\x1b[3H\x1b[My", "1\nx\ny|"},
		{"region", vtMode, "1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\na\nb", "1\na\nb|\n4"},
		{"region reversed", vtMode, "1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[2;1H\x1bMx", "1\nx|\n2\n4"},
		{"scroll by sequence", vtMode, "1\r\n2\r\n3\r\n4\x1b[2S\x1b[H\x1b[T", "|\n3\n4"},
		{"insert mode", vtMode, "abc\x1b[1G\x1b[4hX\x1b[4l", "X|abc"},
		{"line drawing", vtMode, "\x1b(0lqk\x1b(Bx", "┌─┐x|"},
		{"hidden cursor", vtMode, "a\x1b[?25l", "a"},
		{"cursor shown again", vtMode, "a\x1b[?25lb\x1b[?25h", "ab|"},
		{"alternate screen", vtMode, "main\x1b[?1049h\x1b[Halt\x1b[?1049l", "main|"},
		{"in the alternate screen", vtMode, "main\x1b[?1049h\x1b[Halt", "alt|"},
		{"title", vtMode, "\x1b]0;hello\aabc", "abc|"},
		{"unknown sequences", vtMode, "a\x1b[?9999hb\x1b[99zc\x1b]777;x\x1b\\d\x1bPxx\x1b\\e", "abcde|"},
		{"huge parameters", vtMode, "\x1b[99999999999;99999999999Hx\x1b[99999999999Ay", strings.Repeat(" ", 9) +
			"|y\n\n\n         x"},
		{"reset", vtMode, "abc\x1b[31m\x1b[2;3r\x1bcx", "x|"},
		{"origin", vtMode, "\x1b[2;3r\x1b[?6h\x1b[1;1Hx", "\nx|"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, 10, 4)
			l.outputMode(tt.mode)
			l.write(tt.text)
			l.want(tt.screen)
			// The same, a character at a time.
			l = newLab(t, 10, 4)
			l.outputMode(tt.mode)
			for _, r := range tt.text {
				l.write(string(r))
			}
			l.want(tt.screen)
		})
	}
}

// TestWide: a wide character takes two cells, of which none stays when the other
// is overwritten. (The terminal of these tests has no wide characters.)
func TestWide(t *testing.T) {
	l := newLab(t, 4, 3)
	l.write("漢字a漢")
	var got string
	for y := range 3 {
		for _, c := range l.active.rows[y] {
			if !c.behind {
				got += string(c.r)
			}
		}
	}
	if want := "漢字a漢     "; got != want {
		t.Errorf("cells %q, want %q", got, want)
	}
	if got := u16(l.do(codeReadOutput, 1, 8, le32(0, 0, modeAttr, 0)), 1); got != wordDefault|wordTrailing {
		t.Errorf("attribute %#x", got)
	}
	l.do(codeSetOutputInfo, 1, 0, cursorAt(1))
	l.write("x")
	if got := bytesToText(l.do(codeReadOutput, 1, 8, le32(0, 0, modeText, 0))); got != " x字 " {
		t.Errorf("%q", got)
	}
}

// TestColors: attribute words and sequences give the same colors.
func TestColors(t *testing.T) {
	tests := []struct {
		sequence string
		word     uint16 // that gives the same; 0: none does
		fg, bg   vt10x.Color
	}{
		{"\x1b[31m", 4, vt10x.Red, vt10x.DefaultBG},
		{"\x1b[94m", 9, vt10x.LightBlue, vt10x.DefaultBG},
		{"\x1b[30;43m", 0x60, vt10x.Black, vt10x.Yellow},
		{"\x1b[37m", 0, vt10x.LightGrey, vt10x.DefaultBG},
		{"\x1b[38;5;200m", 0, 200, vt10x.DefaultBG},
		{"\x1b[38;2;1;2;3m", 0, 1<<16 | 2<<8 | 3, vt10x.DefaultBG},
		{"\x1b[31;39m", 7, vt10x.DefaultFG, vt10x.DefaultBG},
		{"\x1b[31m\x1b[m", 7, vt10x.DefaultFG, vt10x.DefaultBG},
		{"\x1b[31;0m", 7, vt10x.DefaultFG, vt10x.DefaultBG},
	}
	for _, tt := range tests {
		l := newLab(t, 10, 4)
		l.outputMode(vtMode)
		l.write(tt.sequence + "x")
		if tt.word != 0 {
			data := make([]byte, 4+infoSize)
			data[0] = maskAttr
			data[4+2*infoAttr] = byte(tt.word)
			l.do(codeSetOutputInfo, 1, 0, data)
			if got := i16(l.do(codeGetOutputInfo, 1, infoSize, nil), infoAttr); got != int(tt.word) {
				t.Errorf("attribute %#x, want %#x", got, tt.word)
			}
		}
		l.write("y")
		for x := range 2 {
			if c := l.term.Cell(x, 0); c.FG != tt.fg || c.BG != tt.bg {
				t.Errorf("%q, character %d: color %d on %d, want %d on %d", tt.sequence, x, c.FG, c.BG, tt.fg, tt.bg)
			}
		}
	}
}

// TestAnswers: what programs ask by sequences they get as input.
func TestAnswers(t *testing.T) {
	for sequence, want := range map[string]string{
		"ab\x1b[6n": "\x1b[1;3R", "\x1b[5n": "\x1b[0n", "\x1b[c": "\x1b[?1;0c", "\x1b[>c": "\x1b[>0;10;1c",
	} {
		l := newLab(t, 10, 4)
		l.outputMode(vtMode)
		l.inputMode(inVT)
		l.write(sequence)
		l.startReading(codeReadConsole, 100, nil)
		if got := l.gotText(); got != want {
			t.Errorf("%q is answered by %q, want %q", sequence, got, want)
		}
	}
}

// TestScrollback: every line reaches the terminal before it scrolls away,
// however many come at once.
func TestScrollback(t *testing.T) {
	l := newLab(t, 20, 5)
	var text strings.Builder
	for i := range 200 {
		text.WriteString("line " + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + "\r\n")
	}
	l.Do(Request{Code: codeWriteConsole, Output: 1, Data: bytes16([]uint16(utf16Of(text.String())))})
	out := string(l.TakeOutput())
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSpace(line)
		n := strings.Index(out, line[5:])
		if n < 0 {
			t.Fatalf("%q is not in what the terminal got", line)
		}
	}
	if n := strings.Count(out, "\n"); n < 196 {
		t.Errorf("%d line feeds, want at least 196", n)
	}
}

func utf16Of(s string) []uint16 {
	var out []uint16
	for _, r := range s {
		out = append(out, uint16(r))
	}
	return out
}

// TestWriteFile decodes bytes by the code page, across calls.
func TestWriteFile(t *testing.T) {
	l := newLab(t, 10, 4)
	l.do(codeSetInputInfo, 0, 0, le32(maskOutputPage, 0, 65001))
	for _, b := range []byte("a€b") {
		l.do(codeWriteFile, 1, 0, []byte{b})
	}
	l.want("a€b|")
	if r := l.Do(Request{Code: codeSetInputInfo, Data: le32(maskInputPage, 4711, 0, 0)}); r.Status !=
		statusInvalidParameter {
		t.Errorf("an unknown code page: status %#x", r.Status)
	}
}

// TestBuffers: programs draw in a screen buffer that is not shown, then show it.
func TestBuffers(t *testing.T) {
	l := newLab(t, 10, 4)
	l.write("first")
	l.do(codeInitOutput, 2, 0, nil)
	l.do(codeWriteConsole, 2, 0, bytes16(utf16Of("second")))
	l.want("first|")
	l.do(codeActivate, 2, 0, nil)
	l.want("second|")
	l.do(codeActivate, 1, 0, nil)
	l.do(codeCloseOutput, 2, 0, nil)
	l.want("first|")
	if r := l.Do(Request{Code: codeGetMode, Output: 2}); r.Status != statusInvalidHandle {
		t.Errorf("a closed buffer: status %#x", r.Status)
	}
}

// TestCells reads and writes the screen as full-screen programs do.
func TestCells(t *testing.T) {
	l := newLab(t, 10, 4)
	l.write("hello")
	if got := bytesToText(l.do(codeReadOutput, 1, 10, le32(1, 0, modeText, 0))); got != "ello " {
		t.Errorf("%q", got)
	}
	if n := u32(l.do(codeWriteOutput, 1, 4, append(le32(8, 0, modeText, 0), bytes16(utf16Of("wrap"))...)), 0); n != 4 {
		t.Errorf("wrote %d", n)
	}
	rect := append(le32(1, 2, modeBoth, 2), bytes16([]uint16{'A', 0x0c, 'B', 0x0c, 'C', 0x0c, 'D', 0x0c})...)
	if got := l.do(codeWriteOutput, 1, rectangleSize, rect); i16(got, 2) != 2 || i16(got, 3) != 3 {
		t.Errorf("wrote to %v", got)
	}
	l.want("hello|   wr\nap\n AB\n CD")
	got := l.do(codeReadOutput, 1, rectangleSize+4*4, le32(1, 2, modeBoth, 2))[rectangleSize:]
	if u16(got, 0) != 'A' || u16(got, 1) != 0x0c || u16(got, 6) != 'D' {
		t.Errorf("read %x", got)
	}
	if n := u32(l.do(codeFillOutput, 1, 4, append(le32(0, 0, modeText, 12, 0), 'x', 0, 0, 0)), 0); n != 12 {
		t.Errorf("filled %d", n)
	}
	l.want("xxxxx|xxxxx\nxx\n AB\n CD")
	scroll := bytes16([]uint16{0, 2, 9, 3, 2, 1, 0, 0, 9, 3, '.', 7})
	l.do(codeScroll, 1, 0, scroll)
	l.want("xxxxx|xxxxx\nxx AB\n.. CD\n..........")
}

// TestBadRequests: calls with sizes that cannot be are refused.
func TestBadRequests(t *testing.T) {
	for _, r := range []Request{
		{Code: codeSetMode}, {Code: codeSetMode, Output: 1}, {Code: codeWriteInput, Data: make([]byte, 7)},
		{Code: codeSetInputInfo}, {Code: codeReadControl}, {Code: codeReadOutput, Output: 1},
		{Code: codeWriteOutput, Output: 1, Size: 4}, {Code: codeFillOutput, Output: 1}, {Code: codeScroll, Output: 1},
		{Code: codeSetOutputInfo, Output: 1}, {Code: 0x12345}, {Code: 0x12345, Output: 1},
		{Code: codeGetMode, Output: 7},
	} {
		l := newLab(t, 10, 4)
		if got := l.Do(r); got.Status != statusInvalidParameter && got.Status != statusInvalidHandle {
			t.Errorf("%+v: status %#x", r, got.Status)
		}
		l.settle()
	}
}

// TestTallBuffer: a screen buffer that is larger than the window scrolls the
// window first.
func TestTallBuffer(t *testing.T) {
	l := newLab(t, 10, 3)
	data := make([]byte, 4+infoSize)
	data[0], data[4+2*infoWidth], data[4+2*infoHeight] = maskSize, 10, 100
	l.do(codeSetOutputInfo, 1, 0, data)
	l.write("1\r\n2\r\n3\r\n4\r\n5")
	l.want("3\n4\n5|")
	info := l.do(codeGetOutputInfo, 1, infoSize, nil)
	if i16(info, infoHeight) != 100 || i16(info, infoTop) != 2 || i16(info, infoBottom) != 4 ||
		i16(info, infoCursorY) != 4 {
		t.Errorf("height %d, window from %d to %d", i16(info, infoHeight), i16(info, infoTop), i16(info, infoBottom))
	}
	l.do(codeSetOutputInfo, 1, 0, cursorAt(0))
	l.want("|1\n2\n3")
}

// TestSizes: a terminal of any size, and one that does not know its size.
func TestSizes(t *testing.T) {
	for _, s := range []struct{ given, want Size }{
		{Size{0, 0}, Size{80, 25}}, {Size{1, 1}, Size{1, 1}}, {Size{500, 500}, Size{500, 500}},
		{Size{30000, 30000}, Size{1000, 1000}},
	} {
		c := New(s.given, true, utf8Pages{})
		if c.size != s.want {
			t.Errorf("%v: %v, want %v", s.given, c.size, s.want)
		}
		for range 3 {
			c.Do(Request{Code: codeWriteConsole, Output: 1, Data: bytes16(utf16Of("hello 漢字\r\n\x1b[H\ttab"))})
			c.Input([]byte("abc\x1b[A\x7f"))
			c.TakeOutput()
		}
	}
}

// TestResizing: what is shown stays, and programs that ask are told.
func TestResizing(t *testing.T) {
	l := newLab(t, 10, 4)
	l.write("one\r\ntwo")
	resize := func(w, h int) {
		l.typing(string(inband.Report(uint16(w), uint16(h))))
		l.settle()
	}
	resize(20, 6)
	l.want("one\ntwo|")
	if l.Signaled() {
		t.Error("an event for a program that did not ask")
	}
	l.inputMode(inWindow)
	resize(6, 3)
	l.want("one\ntwo|")
	l.startReading(codeReadInput, 10*eventSize, nil)
	got := l.got()
	if len(got) != eventSize || u16(got, 0) != typeResize || i16(got, 2) != 6 || i16(got, 3) != 3 {
		t.Errorf("event %x", got)
	}
	resize(6, 1)
	l.want("two|")
}

// TestNoTerminal: a console without a terminal, as `start cmd` makes in a
// container, works and keeps no output.
func TestNoTerminal(t *testing.T) {
	c := New(Size{}, false, utf8Pages{})
	for range 100 {
		c.Do(Request{Code: codeSetTitle, Data: bytes16(utf16Of("one"))})
		c.Do(Request{Code: codeSetTitle, Data: bytes16(utf16Of("two"))})
		c.Do(Request{Code: codeBeep})
		c.Do(Request{Code: codeWriteConsole, Output: 1, Data: bytes16(utf16Of("line\a\r\n"))})
	}
	if out := c.TakeOutput(); len(out) != 0 || len(c.renderer.out) != 0 {
		t.Errorf("%q and %d bytes more", out, len(c.renderer.out))
	}
}
