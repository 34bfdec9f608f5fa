// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/mullion-k8s/mullion/internal/console/inband"
)

// Keys as terminals send them.
const (
	up, down, right, left = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"
	home, end, del, ins   = "\x1b[H", "\x1b[F", "\x1b[3~", "\x1b[2~"
	back, enter           = "\x7f", "\r"
	f1, f3, f8            = "\x1bOP", "\x1bOR", "\x1b[19~"
	ctrlLeft, ctrlRight   = "\x1b[1;5D", "\x1b[1;5C"
	ctrlHome, ctrlEnd     = "\x1b[1;5H", "\x1b[1;5F"
)

// TestEditing types into a program that reads a line. Source for the keys:
// learn.microsoft.com/windows/console and "doskey /?" on Windows.
func TestEditing(t *testing.T) {
	tests := []struct {
		name    string
		before  []string // lines entered before
		keys    string
		screen  string
		entered string // after Enter
	}{
		{"text", nil, "echo hi", "> echo hi|", "echo hi"},
		{"backspace", nil, "abX" + back + "c", "> abc|", "abc"},
		{"backspace at the beginning", nil, back + "a", "> a|", "a"},
		{"left and insert", nil, "ac" + left + "b", "> ab|c", "abc"},
		{"overwrite", nil, "abc" + home + ins + "X", "> X|bc", "Xbc"},
		{"home, end", nil, "bc" + home + "a" + end + "d", "> abcd|", "abcd"},
		{"delete", nil, "abc" + home + del, "> |bc", "bc"},
		{"words", nil, "one two  three" + ctrlLeft + ctrlLeft + "X" + ctrlRight + "Y", "> one Xtwo  Y|three",
			"one Xtwo  Ythree"},
		{"delete to the ends", nil, "abcdef" + left + left + left + ctrlHome + ctrlEnd + "x", "> x|", "x"},
		{"escape", nil, "abc\x1b", "> |", ""},
		{"history", []string{"one", "two"}, up + up, "> one|", "one"},
		{"history back down", []string{"one", "two"}, up + up + down, "> two|", "two"},
		{"history stops at its ends", []string{"one", "two"}, up + up + up + down + down + down, "> two|", "two"},
		{"history without repetitions", []string{"one", "two", "two"}, up + up, "> one|", "one"},
		{"a shorter line leaves nothing", []string{"x"}, "a long line" + up, "> x|", "x"},
		{"search", []string{"dir", "echo", "del"}, "d" + f8, "> d|el", "del"},
		{"search twice", []string{"dir", "echo", "del"}, "d" + f8 + f8, "> d|ir", "dir"},
		{"search finds nothing", []string{"dir"}, "x" + f8, "> x|", "x"},
		{"copy", []string{"hello"}, f1 + f1 + "X" + f3, "> heXlo|", "heXlo"},
		{"copy by arrow", []string{"hello"}, right + right, "> he|", "he"},
		{"control characters", nil, "a\x1ab", "> a^Zb|", "a\x1ab"},
		{"unicode", nil, "äöü€" + left + back, "> äö|€", "äö€"},
		{"outside of the basic plane", nil, "a😀b" + left + left + del, "> a|b", "ab"},
		{"tab", nil, "a\tb", "> a^Ib|", "a\tb"},
		{"unknown sequences", nil, "a\x1b[99~\x1b[200~b\x1b[5;7Rc", "> abc|", "abc"},
		{"function keys", nil, "a\x1b[15~\x1b[24~\x1b[5~\x1b[6~b", "> ab|", "ab"},
		{"alt", nil, "\x1bx", "> x|", "x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, 30, 8)
			for _, line := range tt.before {
				l.startReading(codeReadConsole, 1000, nil)
				l.typing(line + enter)
				l.got()
			}
			l.write("\x1b") // shown, not acted upon
			l.do(codeFillOutput, 1, 4, append(le32(0, 0, modeText, 30*8, 0), ' ', 0, 0, 0))
			l.do(codeSetOutputInfo, 1, 0, cursorAt(0))
			l.write("> ")
			l.startReading(codeReadConsole, 1000, nil)
			l.typing(tt.keys)
			if l.Waiting() {
				l.InputPaused()
				l.settle()
			}
			l.want(tt.screen)
			l.typing(enter)
			if got := l.gotText(); got != tt.entered+"\r\n" {
				t.Errorf("read %q, want %q", got, tt.entered+"\r\n")
			}
		})
	}
}

// cursorAt is SetConsoleCursorPosition in the first line.
func cursorAt(x int) []byte {
	data := make([]byte, 4+infoSize)
	data[0] = maskCursorPlace
	data[4+2*infoCursorX] = byte(x)
	return data
}

// TestLongLine types a line that is longer than the whole screen.
func TestLongLine(t *testing.T) {
	l := newLab(t, 10, 3)
	l.startReading(codeReadConsole, 1000, nil)
	line := "abcdefghijklmnopqrstuvwxyz0123456789"
	for i := range line {
		l.typing(line[i : i+1])
	}
	l.want("klmnopqrst\nuvwxyz0123\n456789|")
	l.typing(back + back + left + left + "X")
	l.want("klmnopqrst\nuvwxyz0123\n45X|67")
	l.typing(home)
	l.typing("Y" + end)
	l.typing(enter)
	if got := l.gotText(); got != "Yabcdefghijklmnopqrstuvwxyz012345X67\r\n" {
		t.Errorf("%q", got)
	}
}

// TestPaste: ten thousand characters at once, in pieces that cut characters.
func TestPaste(t *testing.T) {
	l := newLab(t, 80, 25)
	l.startReading(codeReadConsole, 1<<17, nil)
	text := strings.Repeat("0123456789 äöü€😀 ", 600)
	for rest := []byte(text); len(rest) > 0; {
		n := min(4093, len(rest))
		l.Input(rest[:n])
		rest = rest[n:]
		l.settle()
	}
	l.typing(enter)
	if got := l.gotText(); got != text+"\r\n" {
		t.Errorf("read %d characters, want %d", len(got), len(text)+2)
	}
}

// TestPastedLines: each read gets one line, and what is left waits.
func TestPastedLines(t *testing.T) {
	l := newLab(t, 80, 25)
	l.typing("one\rtwo\rthree")
	for _, want := range []string{"one\r\n", "two\r\n"} {
		l.startReading(codeReadConsole, 1000, nil)
		if got := l.gotText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	l.startReading(codeReadConsole, 1000, nil)
	if len(l.reads) != 0 {
		t.Errorf("an unfinished line was read")
	}
	l.want("one\ntwo\nthree|")
}

// TestSmallBuffer: the rest of a line comes with the next read.
func TestSmallBuffer(t *testing.T) {
	l := newLab(t, 80, 25)
	l.startReading(codeReadConsole, 2*3, nil)
	l.typing("abcde" + enter)
	got := l.gotText()
	for len(got) < 7 {
		l.startReading(codeReadConsole, 2*3, nil)
		got += l.gotText()
	}
	if got != "abcde\r\n" {
		t.Errorf("%q", got)
	}
	// The same as bytes, which cut a character in two.
	l.startReading(codeReadFile, 2, nil)
	l.typing("€" + enter)
	got = string(l.got())
	for len(got) < 5 {
		l.startReading(codeReadFile, 2, nil)
		got += string(l.got())
	}
	if got != "€\r\n" {
		t.Errorf("%q", got)
	}
}

// TestEndOfInput: a line that begins with Ctrl+Z ends the input of ReadFile; for
// ReadConsole it is a line like any other.
func TestEndOfInput(t *testing.T) {
	l := newLab(t, 80, 25)
	l.startReading(codeReadFile, 100, nil)
	l.typing("\x1a" + enter)
	if got := l.got(); len(got) != 0 {
		t.Errorf("%q", got)
	}
	l.startReading(codeReadFile, 100, nil)
	l.typing("next" + enter)
	if got := string(l.got()); got != "next\r\n" {
		t.Errorf("%q", got)
	}
	l.startReading(codeReadConsole, 100, nil)
	l.typing("\x1a" + enter)
	if got := l.gotText(); got != "\x1a\r\n" {
		t.Errorf("%q", got)
	}
}

// TestInterrupt: Ctrl+C ends a read of text with nothing, drops the line, and
// asks for the event.
func TestInterrupt(t *testing.T) {
	for _, code := range []uint32{codeReadConsole, codeReadFile} {
		l := newLab(t, 80, 25)
		l.write("> ")
		l.startReading(code, 100, nil)
		l.typing("abc" + left + "\x03")
		if got := l.got(); len(got) != 0 {
			t.Errorf("read %q", got)
		}
		if got := l.TakeControls(); len(got) != 1 || got[0] != CtrlC {
			t.Errorf("events %v", got)
		}
		l.want("> abc|")
		l.startReading(code, 100, nil)
		l.typing("x" + enter)
		if got := l.got(); len(got) == 0 || got[0] != 'x' {
			t.Errorf("read %q", got)
		}
	}
}

// TestBreak: Ctrl+Break comes as Windows' own encoding of keys, and empties the
// queue of events.
func TestBreak(t *testing.T) {
	l := newLab(t, 80, 25)
	l.typing("abc")
	l.typing("\x1b[3;70;0;1;8;1_\x1b[3;70;0;0;8;1_")
	if got := l.TakeControls(); len(got) != 1 || got[0] != CtrlBreak {
		t.Errorf("events %v", got)
	}
	if l.Signaled() {
		t.Error("events are left")
	}
}

// TestGone: programs are told that their terminal is gone.
func TestGone(t *testing.T) {
	l := newLab(t, 80, 25)
	l.typing("abc" + inband.Gone)
	if got := l.TakeControls(); len(got) != 1 || got[0] != CtrlClose {
		t.Errorf("events %v", got)
	}
}

// TestNotProcessed: without ENABLE_PROCESSED_INPUT Ctrl+C is a key.
func TestNotProcessed(t *testing.T) {
	l := newLab(t, 80, 25)
	l.inputMode(0)
	l.startReading(codeReadConsole, 100, nil)
	l.typing("\x03")
	if got := l.gotText(); got != "\x03" {
		t.Errorf("%q", got)
	}
	if got := l.TakeControls(); len(got) != 0 {
		t.Errorf("events %v", got)
	}
}

// TestNoEcho: what is typed is not shown (a password).
func TestNoEcho(t *testing.T) {
	l := newLab(t, 80, 25)
	l.inputMode(inProcessed | inLine)
	l.write("password: ")
	l.startReading(codeReadConsole, 100, nil)
	l.typing("secret" + back + enter)
	l.want("password: |")
	if got := l.gotText(); got != "secre\r\n" {
		t.Errorf("%q", got)
	}
}

// TestWakeUp: a read that a control character ends, as cmd.exe and others use
// for Tab, and goes on with the text that stands there already.
func TestWakeUp(t *testing.T) {
	l := newLab(t, 80, 25)
	l.write("> ")
	l.startReading(codeReadControl, 4+200, le32(1<<'\t'))
	l.typing("do\t")
	if got := string(bytesToText(l.got()[4:])); got != "do\t" {
		t.Errorf("%q", got)
	}
	l.want("> do|")
	l.do(codeSetOutputInfo, 1, 0, cursorAt(2))
	l.write("document")
	l.startReading(codeReadControl, 4+200,
		append(le32(1<<'\t'), bytes16([]uint16{'d', 'o', 'c', 'u', 'm', 'e', 'n', 't'})...))
	l.typing(back + "s" + enter)
	if got := string(bytesToText(l.got()[4:])); got != "documens\r\n" {
		t.Errorf("%q", got)
	}
	l.want("> documens\n|")
}

// TestWakeUpWithinTheLine: the text behind the cursor is gone, as on Windows.
func TestWakeUpWithinTheLine(t *testing.T) {
	l := newLab(t, 80, 25)
	l.write("> ")
	l.startReading(codeReadControl, 4+200, le32(1<<'\t'))
	l.typing("one\x01 two" + left + left + left + "\t")
	if got := bytesToText(l.got()[4:]); got != "one\x01 \t" {
		t.Errorf("%q", got)
	}
	l.want("> one^A |")
}

// TestInterruptBetweenReads: Ctrl+C also ends a line that a program is completing.
func TestInterruptBetweenReads(t *testing.T) {
	l := newLab(t, 80, 25)
	l.startReading(codeReadControl, 4+200, le32(1<<'\t'))
	l.typing("do\t")
	l.got()
	l.typing("\x03")
	l.startReading(codeReadControl, 4+200, append(le32(1<<'\t'), bytes16([]uint16{'d', 'o'})...))
	if got := bytesToText(l.got()[4:]); got != "" {
		t.Errorf("%q", got)
	}
	l.startReading(codeReadControl, 4+200, le32(1<<'\t'))
	l.typing("x" + enter)
	if got := bytesToText(l.got()[4:]); got != "x\r\n" {
		t.Errorf("%q", got)
	}
}

// TestWakeUpWithoutRoom: a line that the caller's buffer cannot hold together with
// the control character goes on, and arrives in pieces.
func TestWakeUpWithoutRoom(t *testing.T) {
	l := newLab(t, 80, 25)
	l.startReading(codeReadControl, 4+2*4, le32(1<<'\t'))
	l.typing("abcd\te" + enter)
	if got := bytesToText(l.got()[4:]); got != "abcd" {
		t.Errorf("%q", got)
	}
	l.startReading(codeReadControl, 4+2*4, le32(1<<'\t'))
	if got := bytesToText(l.got()[4:]); got != "e\r\n" {
		t.Errorf("%q", got)
	}
}

// TestWakeUpOfAScrolledLine: a read goes on with a line whose beginning has left
// the screen.
func TestWakeUpOfAScrolledLine(t *testing.T) {
	const line = "abcdefghijklmnopqrstuvwxyz"
	l := newLab(t, 10, 2)
	l.startReading(codeReadControl, 4+200, le32(1<<'\t'))
	l.typing(line + "\t")
	l.want("klmnopqrst\nuvwxyz|")
	l.got()
	l.startReading(codeReadControl, 4+200, append(le32(1<<'\t'), bytes16(utf16.Encode([]rune(line)))...))
	l.typing("01234" + strings.Repeat(back, 4) + "!")
	l.want("klmnopqrst\nuvwxyz0!|")
	l.typing(enter)
	if got := bytesToText(l.got()[4:]); got != line+"0!\r\n" {
		t.Errorf("%q", got)
	}
}

func bytesToText(data []byte) string {
	var text []rune
	for _, u := range text16(data) {
		text = append(text, rune(u))
	}
	return string(text)
}

// TestResizeWhileEditing keeps the line.
func TestResizeWhileEditing(t *testing.T) {
	l := newLab(t, 20, 5)
	l.write("one\r\ntwo\r\nthree\r\n> ")
	l.startReading(codeReadConsole, 1000, nil)
	l.typing("abcdefgh")
	for _, s := range []Size{{12, 5}, {30, 8}, {12, 2}, {1, 1}, {500, 500}, {20, 5}} {
		l.typing(string(inband.Report(uint16(s.Width), uint16(s.Height))))
		l.settle()
		l.typing("x")
	}
	l.typing(enter)
	if got := l.gotText(); got != "abcdefghxxxxxx\r\n" {
		t.Errorf("%q", got)
	}
}
