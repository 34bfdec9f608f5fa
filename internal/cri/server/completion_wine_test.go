// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/hinshun/vt10x"

	"github.com/mullion-k8s/mullion/internal/cri/runc"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// prompt is a cmd.exe of a container at a terminal.
type prompt struct {
	*lab
	keys io.Writer
	out  *testenv.Buffer
	size runc.Size
	ends func() int32
}

// openPrompt starts a program of a container at a terminal.
func (l *lab) openPrompt(t *testing.T, id string, size runc.Size, args ...string) *prompt {
	t.Helper()
	in, keys := io.Pipe()
	p := &prompt{lab: l, keys: keys, out: &testenv.Buffer{}, size: size}
	resize := make(chan runc.Size, 1)
	resize <- size
	ended := make(chan int32, 1)
	go func() {
		code, _ := l.exec(t.Context(), id,
			execution{args: args, terminal: true, stdin: in, stdout: p.out, resize: resize})
		ended <- code
	}()
	p.ends = func() int32 { return <-ended }
	return p
}

// typing sends keys.
func (p *prompt) typing(keys string) {
	p.t.Helper()
	if _, err := io.WriteString(p.keys, keys); err != nil {
		p.t.Fatal(err)
	}
}

// screen returns the rows that the terminal shows, without blanks at their ends.
func (p *prompt) screen() string {
	term := vt10x.New(vt10x.WithSize(int(p.size.Width), int(p.size.Height)))
	_, _ = term.Write([]byte(p.out.String())) // an emulator in memory
	var rows []string
	for row := range strings.Lines(term.String()) {
		rows = append(rows, strings.TrimRight(row, " \n"))
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n")
}

// shows waits until the screen ends with rows.
func (p *prompt) shows(want string) {
	p.t.Helper()
	testenv.Eventually(p.t, "the screen", func() error {
		if got := p.screen(); !strings.HasSuffix("\n"+got, "\n"+want) {
			return fmt.Errorf("shows\n%s\nwant at its end\n%s", got, want)
		}
		return nil
	})
}

// Keys as terminals send them.
const (
	enterKey, backTab        = "\r", "\x1b[Z"
	leftKey, upKey, controlC = "\x1b[D", "\x1b[A", "\x03"
)

// TestCompletion types Tab into cmd.exe. The rules are those of "cmd /?" on Windows.
func TestCompletion(t *testing.T) {
	l := newWineLab(t)
	id := l.run(l.runSandbox(sandboxConfig("web")), windowsContainer("c", "ping", "-t", "127.0.0.1"))
	p := l.openPrompt(t, id, runc.Size{Width: 60, Height: 20}, "cmd", "/q", "/k", `md C:\w & cd /d C:\w`)
	p.typing(`md dir1 "dir two" sub\deep empty & ` +
		`for %i in (Alpha.txt beta.txt alto.log "a b.txt" a+b.dat sub\inner.txt) do echo x>%i` + "\recho on&cls\r")
	p.shows(`C:\w>`)
	for _, tt := range []struct{ name, keys, line string }{
		{"one match", "type be\t", "type beta.txt"},
		{"one match again", "type be\t\t", "type beta.txt"},
		{"no match", "type nosuch\t", "type nosuch"},
		{"the case of the file", "type ALP\t", "type Alpha.txt"},
		{"several", "type al\t", "type Alpha.txt"},
		{"the next", "type al\t\t", "type alto.log"},
		{"round", "type al\t\t\t", "type Alpha.txt"},
		{"backward", "type al" + backTab, "type alto.log"},
		{"forward and backward", "type al\t" + backTab + backTab, "type Alpha.txt"},
		{"all", "type \t\t", "type \"a+b.dat\""},
		{"an empty line", "\t", `"a b.txt"`},
		{"a space", "type a\t", `type "a b.txt"`},
		{"a quote", "type \"a\t", `type "a b.txt"`},
		{"a quote that is not needed", "type \"be\t", `type "beta.txt"`},
		{"within quotes", "type \"a b\t", `type "a b.txt"`},
		{"a shorter one after a longer one", "type \t\t\t", "type Alpha.txt"},
		{"a directory part", `type sub\i` + "\t", `type sub\inner.txt`},
		{"an absolute path", `type C:\w\sub\` + "\t\t", `type C:\w\sub\inner.txt`},
		{"from the root", `type \w\be` + "\t", `type \w\beta.txt`},
		{"the directory above", `cd ..\w\su` + "\t", `cd ..\w\sub`},
		{"below a completed directory", `cd "dir t` + "\t" + `\..\sub\` + "\t", `cd "dir two\..\sub\deep"`},
		{"a pattern", "type *.log\t\t", "type alto.log"},
		{"a pattern in a directory", `type sub\*.txt` + "\t", `type sub\inner.txt`},
		{"directories only", "cd \t\t\t\t\t", `cd "dir two"`},
		{"directories only, backward", "RD " + backTab, "RD sub"},
		{"no directory", "md a\t", "md a"},
		{"all for other commands", "dir d\t\t", "dir dir1"},
		{"after a redirection", "echo x>be\t", "echo x>beta.txt"},
		{"after another command", "ver&type be\t", "ver&type beta.txt"},
		{"after an equals sign", "set X=be\t", "set X=beta.txt"},
		{"a switch", "dir /be\t", "dir /beta.txt"},
		{"in the middle of a line", "type be me" + strings.Repeat(leftKey, 3) + "\t", "type beta.txt"},
		{"edited in between", "type al\t" + "\x7f\x7f\x7f\x7f" + "\t\t", "type Alpha.txt"},
		{"edited at its end", "type al\t x be\t", "type Alpha.txt x beta.txt"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.typing(tt.keys + "!") // tells when all has been acted upon
			p.shows(`C:\w>` + tt.line + "!")
			p.typing(controlC)
			p.shows(`C:\w>` + tt.line + "!^C\nC:\\w>")
		})
	}
	p.typing("echo be\t" + enterKey)
	p.shows("C:\\w>echo beta.txt\nbeta.txt\n\nC:\\w>")
	p.typing("ver" + enterKey + upKey + upKey + "!" + enterKey)
	p.shows("C:\\w>echo beta.txt!\nbeta.txt!\n\nC:\\w>")
	p.typing("set /p NAME=file? " + enterKey + "al" + backTab + enterKey + "echo %NAME%" + enterKey)
	p.shows("file? alto.log\n\nC:\\w>echo %NAME%\nalto.log\n\nC:\\w>")
	p.typing("exit 3" + enterKey)
	if code := p.ends(); code != 3 {
		t.Errorf("code %d", code)
	}
	t.Run("characters", func(t *testing.T) { l.testCompletionCharacters(t, id) })
	t.Run("narrow", func(t *testing.T) { l.testNarrowCompletion(t, id) })
	t.Run("pasted", func(t *testing.T) { l.testPastedTabs(t, id) })
}

// testCompletionCharacters: options and the registry say which keys complete.
func (l *lab) testCompletionCharacters(t *testing.T, id string) {
	for _, tt := range []struct{ option, keys, line string }{
		{"/f:on", "echo be\x06 d\x04\x04 \t", `echo beta.txt dir1 ^I`},
		{"/F:OFF", "echo be\x06\t", "echo be^F^I"},
	} {
		p := l.openPrompt(t, id, runc.Size{Width: 60, Height: 20}, "cmd", tt.option, "/k", `cd /d C:\w`)
		p.shows(`C:\w>`)
		p.typing(tt.keys + "!")
		p.shows(`C:\w>` + tt.line + "!")
		p.typing(controlC + "exit" + enterKey)
		p.ends()
	}
	p := l.openPrompt(t, id, runc.Size{Width: 60, Height: 20}, "cmd", "/k", `cd /d C:\w`)
	p.shows(`C:\w>`)
	const value = ` "HKCU\Software\Microsoft\Command Processor" /v CompletionChar `
	p.typing("reg add" + value + "/t REG_DWORD /d 7" + enterKey + "cls" + enterKey + "type be\x07 d\t\t!")
	p.shows(`C:\w>type beta.txt dir1!`)
	p.typing(controlC + "reg delete" + value + "/f" + enterKey + "exit" + enterKey)
	p.ends()
}

// testNarrowCompletion completes lines that take several rows, at the end of the
// screen, where it scrolls.
func (l *lab) testNarrowCompletion(t *testing.T, id string) {
	p := l.openPrompt(t, id, runc.Size{Width: 20, Height: 4}, "cmd", "/k", `cd /d C:\w`)
	p.shows(`C:\w>`)
	for _, step := range []struct{ keys, screen string }{
		{`md Z234567890123456789 & cls` + enterKey, `C:\w>`},
		{"echo sub\\\t", "C:\\w>echo sub\\deep"},
		{"\t", "C:\\w>echo sub\\inner.\ntxt"},
		{"\t", "C:\\w>echo sub\\deep"},
		{" z\t", "C:\\w>echo sub\\deep Z\n234567890123456789"},
		{" al\t", "C:\\w>echo sub\\deep Z\n234567890123456789 A\nlpha.txt"},
		{" \x01 sub\\\t\t", "234567890123456789 A\nlpha.txt ^A sub\\inne\nr.txt"},
		{"\t", "234567890123456789 A\nlpha.txt ^A sub\\deep"},
		{"\t\t\t!", "234567890123456789 A\nlpha.txt ^A sub\\inne\nr.txt!"},
		{controlC + "echo end" + enterKey, "C:\\w>echo end\nend\n\nC:\\w>"},
		{strings.Repeat("rem ", 30) + "be\t" + strings.Repeat("\x7f", len("beta.txt")) + "hi",
			" rem rem rem rem rem\n rem rem rem rem rem\n rem hi"},
	} {
		p.typing(step.keys)
		p.shows(step.screen)
	}
	p.typing(controlC + "exit" + enterKey)
	p.ends()
}

// testPastedTabs pastes 10 kB with tabs, of which some complete and some do not.
func (l *lab) testPastedTabs(t *testing.T, id string) {
	p := l.openPrompt(t, id, runc.Size{Width: 80, Height: 25}, "cmd", "/k", `cd /d C:\w`)
	p.shows(`C:\w>`)
	for range 64 {
		p.typing("rem be\tno\t\"a\t" + strings.Repeat("x", 50) + "\t" + enterKey)
	}
	p.typing("echo " + strings.Repeat("0123456789 \t", 600) + enterKey + "echo end" + enterKey)
	p.shows("C:\\w>echo end\nend\n\nC:\\w>")
	p.typing("exit" + enterKey)
	p.ends()
}
