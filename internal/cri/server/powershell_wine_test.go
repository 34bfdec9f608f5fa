// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/cri/runc"
)

// TestPowerShellCompletion types Tab into powershell.exe. What is completed to what
// is tested in pwsh/internal/complete; this is how it looks.
func TestPowerShellCompletion(t *testing.T) {
	l := newWineLab(t)
	id := l.run(l.runSandbox(sandboxConfig("web")), windowsContainer("c", "ping", "-t", "127.0.0.1"))
	p := l.openPrompt(t, id, runc.Size{Width: 40, Height: 10}, "powershell", "-NoLogo")
	p.shows(`PS C:\>`)
	p.typing(`md C:\w\Alpha.d, C:\w\beta, C:\w\zäh > $null; cd C:\w; cls` + enterKey)
	p.shows(`PS C:\w>`)
	if screen := p.screen(); screen != `PS C:\w>` {
		t.Errorf("cls left\n%s", screen)
	}
	for _, tt := range []struct{ name, keys, line string }{
		{"a cmdlet", "get-chi\t", "Get-ChildItem"},
		{"a file", "cat al\t", `cat .\Alpha.d`},
		{"the next", "cd \t\t", `cd .\beta`},
		{"a shorter one after a longer one", "cd \t\t\t\t", `cd .\Alpha.d`},
		{"backward", "cd " + backTab, `cd .\zäh`},
		{"no match", "cat nosuch\t", "cat nosuch"},
		{"a parameter", "ls -rec\t", "ls -Recurse"},
		{"a variable", "$psv\t", "$PSVersionTable"},
		{"in the middle of a line", "cat be me" + strings.Repeat(leftKey, 3) + "\t", `cat .\beta`},
		{"over two rows", "Get-ChildItem -Path C:\\w\\b\t -rec\t", "Get-ChildItem -Path C:\\w\\beta -\nRecurse"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.typing(tt.keys + "!") // tells when all has been acted upon
			p.shows(`PS C:\w> ` + tt.line + "!")
			p.typing(controlC)
			p.shows(`PS C:\w> ` + tt.line + "!^C\nPS C:\\w>")
		})
	}
	p.typing("write-ho\t one\ttwo" + enterKey)
	p.shows("PS C:\\w> Write-Host onetwo\nonetwo\nPS C:\\w>")
	p.typing("cd be\t" + enterKey + upKey + "x" + "\x7f" + enterKey)
	p.shows("PS C:\\w\\beta>")
	p.typing("\x1a" + enterKey + "cls" + enterKey + "'goes on'" + enterKey) // Ctrl+Z does not end PowerShell
	p.shows("PS C:\\w\\beta> 'goes on'\ngoes on\nPS C:\\w\\beta>")
	p.typing("exit 3" + enterKey)
	if code := p.ends(); code != 3 {
		t.Errorf("code %d", code)
	}
}
