// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/cri/runc"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestTerminateBatchJob interrupts batch files at a terminal. What is typed at the
// prompt is in the style of Windows, where Ctrl+C asks before it ends a batch file.
func TestTerminateBatchJob(t *testing.T) {
	l := newWineLab(t)
	id := l.run(l.runSandbox(sandboxConfig("web")), windowsContainer("c", "ping", "-t", "127.0.0.1"))
	size := runc.Size{Width: 80, Height: 20}
	p := l.openPrompt(t, id, size, "cmd", "/q", "/k", `md C:\b & cd /d C:\b`)
	const question = "^CTerminate batch job (Y/N)? "
	for _, line := range []string{
		`>halt.cmd echo @pause`, `>>halt.cmd echo @echo end`,
		`>wait.cmd echo @ping -n 100 127.0.0.1 ^>started`, `>>wait.cmd echo @echo end`,
		`>loop.cmd echo @for /l %%i in (1,1,3) do @(echo %%i^&pause)`, `>>loop.cmd echo @echo end`,
		`>outer.cmd echo @call halt.cmd`, `>>outer.cmd echo @echo outer`,
		"echo on&cls",
	} {
		p.typing(line + enterKey)
	}
	p.shows(`C:\b>`)
	const halt = "Press any key to continue . . . "
	for _, tt := range []struct{ name, line, first, keys, shows string }{
		{"yes", "halt", halt, "y" + enterKey, "y\n"},
		{"no", "halt", halt, "N" + enterKey, "N\nend\n"},
		{"words", "halt", halt, "no" + enterKey, "no\nend\n"},
		{"something else", "halt", halt, "what" + enterKey + enterKey + "yes" + enterKey,
			"what\nTerminate batch job (Y/N)?\nTerminate batch job (Y/N)? yes\n"},
		{"Ctrl+C again", "halt", halt, controlC, ""},
		{"all that called it", "outer", halt, "y" + enterKey, "y\n"},
		{"the caller goes on", "outer", halt, "n" + enterKey, "n\nend\nouter\n"},
		{"the rest of the line", "halt & echo more", halt, "y" + enterKey, "y\n"},
		{"a program", "wait", "", "n" + enterKey, "n\nend\n"},
		{"a loop", "loop", "1\n" + halt, "y" + enterKey, "y\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.typing("cls" + enterKey)
			p.shows(`C:\b>`)
			p.typing(tt.line + enterKey)
			p.shows(strings.TrimRight(`C:\b>`+tt.line+"\n"+tt.first, " \n"))
			if tt.line == "wait" {
				testenv.Eventually(t, "the program runs", func() error {
					code, err := l.exec(t.Context(), id, execution{stdout: io.Discard,
						args: []string{"findstr", "Reply", `C:\b\started`}})
					if err == nil && code != 0 {
						err = errors.New("no reply yet")
					}
					return err
				})
			}
			p.typing(controlC)
			p.shows(tt.first + strings.TrimRight(question, " "))
			p.typing(tt.keys)
			p.shows(strings.ReplaceAll(tt.first+question+tt.shows+"\nC:\\b>", " \n", "\n"))
		})
	}
	p.typing("exit 4" + enterKey)
	if code := p.ends(); code != 4 {
		t.Errorf("code %d", code)
	}
}
