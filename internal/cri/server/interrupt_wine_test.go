// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/runc"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// sees waits for text at the beginning of a row of the screen.
func (p *prompt) sees(want string) {
	p.t.Helper()
	testenv.Eventually(p.t, "the screen", func() error {
		if got := p.screen(); !strings.Contains("\n"+got, "\n"+want) {
			return fmt.Errorf("shows\n%s\nwithout %q", got, want)
		}
		return nil
	})
}

// showsOnly waits until nothing else is on the screen.
func (p *prompt) showsOnly(want string) {
	p.t.Helper()
	testenv.Eventually(p.t, "an empty screen", func() error {
		if got := strings.TrimLeft(p.screen(), "\n"); got != want {
			return fmt.Errorf("shows\n%s", got)
		}
		return nil
	})
}

// prompts waits for the prompt that follows an interrupt.
func (p *prompt) prompts() {
	p.t.Helper()
	testenv.Eventually(p.t, "the prompt", func() error {
		if got := p.screen(); !strings.HasSuffix(got, "^C\n\nC:\\i>") {
			return fmt.Errorf("shows\n%s", got)
		}
		return nil
	})
}

// TestInterruptTyped interrupts lines that were typed into cmd.exe: Ctrl+C ends all
// of a line, and the next one runs.
func TestInterruptTyped(t *testing.T) {
	l := newWineLab(t)
	config := windowsContainer("c", "ping", "-t", "127.0.0.1")
	config.Mounts = []*runtime.Mount{{HostPath: `C:\files`, ContainerPath: `C:\files`}}
	must(t, os.Mkdir(filepath.Join(l.drive, "files"), 0o755))
	long := filepath.Join(l.drive, "files", "long")
	must(t, os.WriteFile(long, []byte("It begins.\r\n"), 0o644))
	must(t, os.Truncate(long, 1<<40)) // zeros that take no space
	id := l.run(l.runSandbox(sandboxConfig("web")), config)
	p := l.openPrompt(t, id, runc.Size{Width: 80, Height: 20}, "cmd", "/q", "/k", `md C:\i & cd /d C:\i & echo on`)
	p.shows(`C:\i>`)
	p.typing("echo @echo ran>b.bat" + enterKey)
	for _, tt := range []struct{ name, line, runs string }{
		{"counts", "for /l %i in (1,1,2000000000) do @echo %i of", "1"},
		{"counts down", "for /l %i in (2000000000,-1,1) do @echo %i of", "1999"},
		{"has no end", "for /l %i in (0,0,1) do @echo round", "round"},
		{"in another loop", "for %x in (a b) do @for /l %i in (0,0,1) do @echo %x", "a"},
		{"in a block", "(for /l %i in (0,0,1) do @echo round) & echo after", "round"},
		{"writes a file", "for /l %i in (0,0,1) do @(echo %i>file & echo written)", "written"},
		{"a program in a loop", "for /l %i in (1,1,9) do @ping -t 127.0.0.1", "Reply"},
		{"a program by its path", `for /l %i in (0,0,1) do @C:\Windows\System32\cmd.exe /c ver`, "Microsoft"},
		{"a pipe in a loop", "for /l %i in (0,0,1) do @echo round | findstr o", "round"},
		{"a program before others", "ping -t 127.0.0.1 & echo after & ping -t 127.0.0.1", "Reply"},
		{"a listing", `dir /s C:\ C:\ C:\ C:\ & echo after`, " Directory of"},
		{"the last command", `dir /s C:\ C:\ C:\ C:\`, " Directory of"},
		{"a file", `type C:\files\long & echo after`, "It begins."},
		{"a file into another", `echo copies & type C:\files\long >NUL & echo after`, "copies"},
		{"a file after a batch file", `b & type C:\files\long & echo after`, "It begins."},
		{"a question", "set /p X=question & echo after", "question"},
		{"a key", "pause & echo after", "Press any key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.typing("cls" + enterKey)
			p.showsOnly(`C:\i>`)
			p.typing(tt.line + enterKey)
			p.sees(tt.runs)
			p.typing(controlC)
			p.prompts()
			if strings.Contains(p.screen(), "Total Files Listed") {
				t.Errorf("the command went on to its end:\n%s", p.screen())
			}
			p.typing("echo next" + enterKey)
			p.shows("C:\\i>echo next\nnext\n\nC:\\i>")
		})
	}
	// Ctrl+C that comes before the command reads ends it, too.
	for _, line := range []string{"set /p X=question & echo after", "pause & echo after"} {
		for range 5 {
			p.typing("cls" + enterKey)
			p.showsOnly(`C:\i>`)
			p.typing(line + enterKey + controlC)
			p.prompts()
			p.typing("echo next" + enterKey)
			p.shows("C:\\i>echo next\nnext\n\nC:\\i>")
		}
	}
	p.typing("for /l %i in (3,-1,1) do @echo %i" + enterKey)
	p.shows("3\n2\n1\n\nC:\\i>")
	p.typing("cls" + enterKey + enterKey + " " + enterKey)
	p.shows("C:\\i>\n\nC:\\i>\n\nC:\\i>")
	p.typing("exit 4" + enterKey)
	if code := p.ends(); code != 4 {
		t.Errorf("code %d", code)
	}
}
