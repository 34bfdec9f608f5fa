// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/rowtest"
	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
)

func encoded(s string) string {
	return base64.StdEncoding.EncodeToString(interp.EncodeUTF16(s, false))
}

func TestParseArgs(t *testing.T) {
	for _, x := range []struct {
		name, program string
		args          []string
		want          Options
		fails         bool
	}{
		{name: "command takes the rest", program: "powershell.exe",
			args: []string{"-NoProfile", "-Command", "a", "b", "-c"},
			want: Options{Command: "a b -c", HasCommand: true}},
		{name: "abbreviations", program: "powershell", args: []string{"-nop", "-noni", "-nol", "-ep", "bypass", "-c",
			"x"}, want: Options{
			Command:    "x",
			HasCommand: true,
			NoLogo:     true,
			NonInter:   true,
		}},
		{name: "slash", program: "powershell", args: []string{"/c", "x"},
			want: Options{Command: "x", HasCommand: true}},
		{name: "positional is a command", program: `C:\x\POWERSHELL.EXE`, args: []string{"Write-Host", "hi"},
			want: Options{Command: "Write-Host hi", HasCommand: true}},
		{name: "positional is a file", program: "pwsh.exe", args: []string{"a.ps1", "-x"},
			want: Options{Edition: syntax.Core, File: "a.ps1", FileArgs: []string{"-x"}}},
		{name: "file", program: "powershell.exe", args: []string{"-ExecutionPolicy", "Bypass", "-File", "a.ps1", "-n",
			"1"}, want: Options{File: "a.ps1", FileArgs: []string{"-n", "1"}}},
		{name: "encoded", program: "powershell.exe", args: []string{"-enc", encoded("'é'")},
			want: Options{Command: "'é'", HasCommand: true, Encoded: true}},
		{name: "stdin", program: "powershell.exe", args: []string{"-Command", "-"},
			want: Options{FromStdin: true, HasCommand: true}},
		{name: "window", program: "powershell.exe", args: []string{"-WindowStyle", "Hidden", "-InputFormat", "None",
			"-Sta", "-Version", "5.1", "-NoExit", "-Command", "1"},
			want: Options{Command: "1", HasCommand: true, NoExit: true}},
		{name: "bad base64", program: "powershell.exe", args: []string{"-e", "!"}, fails: true},
		{name: "missing value", program: "powershell.exe", args: []string{"-ExecutionPolicy"}, fails: true},
		{name: "unknown option of pwsh", program: "pwsh", args: []string{"-bogus"}, fails: true},
		{name: "nothing", program: "powershell.exe", want: Options{}},
	} {
		t.Run(x.name, func(t *testing.T) {
			got, err := ParseArgs(x.program, x.args)
			if x.fails {
				if err == nil {
					t.Fatal("no error")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*got, x.want) && (len(got.FileArgs) != 0 || len(x.want.FileArgs) != 0 ||
				got.Command != x.want.Command || got.File != x.want.File) {
				t.Errorf("got %+v, want %+v", *got, x.want)
			}
		})
	}
}

func runMain(t testing.TB, program, stdin string, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	h, _ := rowtest.Handlers(t, &o, &e)
	h.Stdin = strings.NewReader(stdin)
	code = Main(context.Background(), nil, program, args, h, false, false, t.TempDir())
	return o.String(), e.String(), code
}

func TestExitCodes(t *testing.T) {
	for _, x := range []struct {
		name, program, stdin string
		args                 []string
		code                 int
		out                  string
	}{
		{name: "success", args: []string{"-c", "1"}, out: "1\n"},
		{name: "exit", args: []string{"-c", "exit 7"}, code: 7},
		{name: "exit in a function", args: []string{"-c", "function f { exit 4 }; f; 'never'"}, code: 4},
		{name: "exit in try", args: []string{"-c", "try { exit 5 } finally { 'f' }"}, code: 5, out: "f\n"},
		{name: "throw", args: []string{"-c", "throw 'x'"}, code: 1},
		// As the kubelet asks before it mounts a subPath.
		{name: "link",
			args: []string{"/c", "New-Item -ItemType File real > $null; New-Item -ItemType SymbolicLink -Path way " +
				"-Value real > $null; $ErrorActionPreference = 'Stop'; (Get-Item -Force -LiteralPath way).LinkType; " +
				"Split-Path -Leaf (Get-Item -Force -LiteralPath way).Target; (Get-Item -Force -LiteralPath " +
				"real).LinkType"}, out: "SymbolicLink\nreal\n"},
		{name: "failed last command", args: []string{"-c", "Get-Item nope -ErrorAction SilentlyContinue"}, code: 1},
		{name: "failed command before", args: []string{"-c", "Get-Item nope -ErrorAction SilentlyContinue; 'x'"},
			out: "x\n"},
		{name: "native code becomes 1", args: []string{"-c", "sh -c 'exit 9'"}, code: 1},
		{name: "native code passed on", args: []string{"-c", "sh -c 'exit 9'; exit $LASTEXITCODE"}, code: 9},
		{name: "parse error", args: []string{"-c", "if ("}, code: 1},
		{name: "stop preference", args: []string{"-c", "$ErrorActionPreference='Stop'; Get-Item nope; 'never'"},
			code: 1},
		{name: "joined arguments", args: []string{"Write-Output", "a", "b"}, out: "a\nb\n"},
		{name: "stdin command", stdin: "1+1\nif ($true)\n{ 'x' }\n\nexit 6\n", args: []string{"-Command", "-"}, code: 6,
			out: "2\nx\n"},
		{name: "prompt on a pipe", stdin: "'hi'\nexit 2\n", args: []string{"-NoLogo"}, code: 2},
		{name: "missing file", args: []string{"-File", "nope.ps1"}, code: -196608},
		{name: "missing file of pwsh", program: "pwsh", args: []string{"nope"}, code: 64},
		{name: "pwsh version", program: "pwsh", args: []string{"-v"}, out: "PowerShell 7.4.6\n"},
		{name: "encoded", args: []string{"-EncodedCommand", encoded("'ok'")}, out: "ok\n"},
		{name: "script block text", args: []string{"-Command", "& { param($x) \"<$x>\" } 5"}, out: "<5>\n"},
		{name: "file exit", args: []string{"-File", "FILE:param($a,[switch]$s) \"$a $s\"; exit 3", "v", "-s"}, code: 3,
			out: "v True\n"},
		{name: "file without exit", args: []string{"-File", "FILE:Get-Item nope -ea 0"}, code: 0},
		{name: "file throws", args: []string{"-File", "FILE:throw 'x'"}, code: 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			program := x.program
			if program == "" {
				program = "powershell.exe"
			}
			args := append([]string{}, x.args...)
			for i, a := range args {
				if text, ok := strings.CutPrefix(a, "FILE:"); ok {
					args[i] = writeFile(t, "s.ps1", text)
				}
			}
			out, errs, code := runMain(t, program, x.stdin, args...)
			if code != x.code || x.out != "" && out != x.out {
				t.Errorf("exit %d, printed %q %q; want %d %q", code, out, errs, x.code, x.out)
			}
		})
	}
}

func TestPrompt(t *testing.T) {
	out, errs, code := runMain(t, "powershell.exe", "$x = 1\nfunction f {\n$x + 1\n}\nf\nthrow 'a'\n'after'\n")
	if code != 0 || strings.Count(out, ">> ") != 2 || !strings.Contains(out, "> 2\n") ||
		!strings.Contains(out, "> after\n") || !strings.Contains(errs, "OperationStopped: (a:String)") {
		t.Errorf("exit %d\n%s\n%s", code, out, errs)
	}
}

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// interruptedInput is a console whose reads Ctrl+C ends where a line is "^C".
type interruptedInput struct {
	lines      []string
	interrupts chan<- os.Signal
}

func (i *interruptedInput) Read(p []byte) (int, error) {
	if len(i.lines) == 0 {
		return 0, io.EOF
	}
	line := i.lines[0]
	i.lines = i.lines[1:]
	if line == "^C" {
		i.interrupts <- os.Interrupt
		return 0, io.EOF
	}
	return copy(p, line), nil
}

// TestInterruptedPrompt: Ctrl+C at the prompt drops what was typed, and while a
// command runs it ends the command. The session goes on.
func TestInterruptedPrompt(t *testing.T) {
	interrupts := make(chan os.Signal, 1)
	in := &interruptedInput{interrupts: interrupts, lines: []string{"'one'\n", "if (1) {\n", "^C", "'two'\n",
		"exit 3\n"}}
	var out, errs bytes.Buffer
	h := host.Handlers{Stdin: in, Stdout: &out, Stderr: &errs}
	code := Main(t.Context(), interrupts, "powershell.exe", []string{"-NoLogo"}, h, false, true, "/")
	if want := "PS /> one\nPS /> >> ^C\nPS /> two\nPS /> "; code != 3 || out.String() != want {
		t.Errorf("%d, %q, %q; want 3, %q", code, out.String(), errs.String(), want)
	}

	interrupts <- os.Interrupt
	in.lines = []string{"while ($true) {}\n", "'after'\n", "exit 4\n"}
	out.Reset()
	code = Main(t.Context(), interrupts, "powershell.exe", []string{"-NoLogo"}, h, false, true, "/")
	if want := "PS /> PS /> after\nPS /> "; code != 4 || out.String() != want {
		t.Errorf("%d, %q, %q; want 4, %q", code, out.String(), errs.String(), want)
	}
}

// keys is a console at which lines are typed.
type keys struct {
	lines   []string
	cleared int
}

func (k *keys) ReadLine(complete func(string, bool) string) (string, error) {
	if len(k.lines) == 0 {
		return "", io.EOF
	}
	parts := strings.Split(k.lines[0], "\t")
	k.lines = k.lines[1:]
	line := parts[0]
	for _, typed := range parts[1:] {
		line = complete(line, false) + typed
	}
	return line + "\n", nil
}

func (k *keys) Clear() error { k.cleared++; return nil }

// TestConsole: a prompt reads from the console, where Tab completes; what is not a
// prompt does not.
func TestConsole(t *testing.T) {
	typed := &keys{lines: []string{"function greet { 'hello' }", "gre\t", "cls", "$gre = 3", "$gr\t + 1", "exit 5"}}
	var out bytes.Buffer
	h := host.Handlers{Stdin: strings.NewReader("exit 6\n"), Stdout: &out, Stderr: &out, Console: typed}
	code := Main(t.Context(), nil, "powershell.exe", []string{"-NoLogo"}, h, false, true, "/")
	const want = "PS /> PS /> hello\nPS /> PS /> PS /> 4\nPS /> "
	if code != 5 || out.String() != want || typed.cleared != 1 {
		t.Errorf("%d, %q, cleared %d times; want 5, %q, once", code, out.String(), typed.cleared, want)
	}
	typed.lines = []string{"exit 7"}
	code = Main(t.Context(), nil, "powershell.exe", []string{"-NonInteractive"}, h, false, true, "/")
	if code != 6 {
		t.Errorf("%d without a prompt, want 6", code)
	}
}
