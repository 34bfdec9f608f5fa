// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/pwsh/internal/rowtest"
)

// TestOptions runs command lines as they are written in manifests and scripts.
// Source: about_PowerShell_exe and about_Pwsh, read 2026-11.
func TestOptions(t *testing.T) {
	const desktop, core = "powershell.exe", `C:\Program Files\PowerShell\7\pwsh.exe`
	for _, x := range []struct {
		name, program, stdin string
		args                 []string
		code                 int
		out, errs            string // what is printed, up to {{}}
	}{
		{name: "dash", program: desktop, args: []string{"-"}, stdin: "1 +\n2\n'x'\n", out: "3\nx\n"},
		{
			name:    "file from the input",
			program: desktop,
			args:    []string{"-File", "-"},
			stdin:   "'in'\nexit 5\n'after'\n",
			code:    5,
			out:     "in\n",
		},
		{
			name:    "input that ends in the middle",
			program: desktop,
			args:    []string{"-Command", "-"},
			stdin:   "if (1) {\n",
			code:    1,
			errs:    "{{}}Missing closing '}'{{}}",
		},
		{name: "help", program: desktop, args: []string{"-?"}, out: "PowerShell[.exe]{{}}"},
		{name: "help of 7", program: core, args: []string{"-Help"}, out: "{{}}"},
		{name: "version", program: core, args: []string{"-Version"}, out: "PowerShell 7.4.6\n"},
		{name: "version, abbreviated", program: core, args: []string{"-v"}, out: "PowerShell 7.4.6\n"},
		{
			name:    "directory",
			program: desktop,
			args:    []string{"-WorkingDirectory", "/", "-Command", "(pwd).Path"},
			out:     "/\n",
		},
		{name: "empty argument", program: desktop, args: []string{"", "-c", "1"}, out: "1\n"},
		{name: "unknown option is a command", program: desktop, args: []string{"-bogus"}, code: 1, errs: "{{}}"},
		{
			name:    "unknown option of 7",
			program: core,
			args:    []string{"-bogus"},
			code:    exitUsage,
			errs:    "The argument '-bogus' is not recognized{{}}",
		},
		{
			name:    "missing value",
			program: desktop,
			args:    []string{"-Command"},
			code:    exitUsageDesktop,
			errs:    "{{}}missing parameter{{}}",
		},
		{
			name:    "missing file",
			program: desktop,
			args:    []string{"-File", "nosuch.ps1"},
			code:    exitUsageDesktop,
			errs:    "The argument 'nosuch.ps1' to the -File parameter does not exist.{{}}",
		},
		{
			name:    "missing file of 7",
			program: core,
			args:    []string{"nosuch.ps1"},
			code:    exitUsage,
			errs:    "{{}}does not exist{{}}",
		},
		{
			name:    "missing command of 7",
			program: core,
			args:    []string{"nosuch"},
			code:    exitUsage,
			errs:    "The argument 'nosuch' is not recognized{{}}",
		},
		{
			name:    "file of another kind",
			program: desktop,
			args:    []string{"-File", "FILE.txt:'x'"},
			code:    exitUsageDesktop,
			errs:    "Processing -File{{}}does not have a '.ps1' extension.{{}}",
		},
		{
			name:    "no exit",
			program: desktop,
			args:    []string{"-NoExit", "-Command", "$x = 5"},
			stdin:   "$x + 1\n",
			out:     "{{}}PS {{}}> 6\n{{}}",
		},
		{
			name:    "no exit from a file",
			program: desktop,
			args:    []string{"-NoExit", "-File", "FILE.ps1:'ran'"},
			stdin:   "exit 2\n",
			code:    2,
			out:     "ran\n{{}}",
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			args := append([]string{}, x.args...)
			for i, a := range args {
				if rest, ok := strings.CutPrefix(a, "FILE"); ok {
					ext, text, _ := strings.Cut(rest, ":")
					args[i] = writeFile(t, "s"+ext, text)
				}
			}
			out, errs, code := runMain(t, x.program, x.stdin, args...)
			if code != x.code || !rowtest.Like(out, x.out) || !rowtest.Like(errs, x.errs) {
				t.Errorf("exit %d, printed %q and %q; want %d, %q and %q", code, out, errs, x.code, x.out, x.errs)
			}
		})
	}
}

// TestInteractive checks what a terminal sees before the first prompt.
func TestInteractive(t *testing.T) {
	var out, errs bytes.Buffer
	h, _ := rowtest.Handlers(t, &out, &errs)
	h.Stdin = strings.NewReader("1 +\n\n2\nexit 3\n")
	if code := Main(context.Background(), nil, "powershell.exe", nil, h, false, true, "/"); code != 3 {
		t.Errorf("exit %d, printed %q %q", code, out.String(), errs.String())
	}
	if !strings.Contains(out.String(), "docs/fidelity/pwsh.md") || !strings.Contains(out.String(), "\nPS /> >> ") {
		t.Errorf("printed %q", out.String())
	}
}

// TestContextEnds checks that the end of the context ends a prompt's command.
func TestContextEnds(t *testing.T) {
	var out, errs bytes.Buffer
	h, _ := rowtest.Handlers(t, &out, &errs)
	h.Stdin = strings.NewReader("while ($true) {}\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := Main(ctx, nil, "powershell.exe", nil, h, false, false, "/"); code != exitError {
		t.Errorf("exit %d, printed %q %q", code, out.String(), errs.String())
	}
}

// TestOutputCloses checks that a script ends when its output is closed.
func TestOutputCloses(t *testing.T) {
	var errs bytes.Buffer
	for _, args := range [][]string{nil, {"-c", "1; 2"}, {"-?"}} {
		h, _ := rowtest.Handlers(t, closed{}, &errs)
		h.Stdin = strings.NewReader("1\n")
		if code := Main(t.Context(), nil, "powershell.exe", args, h, false, false, "/"); code != exitError {
			t.Errorf("%v: exit %d", args, code)
		}
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("the pipe is closed") }
