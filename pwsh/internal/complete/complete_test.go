// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package complete

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/pwsh/host/hosttest"
	"github.com/mullion-k8s/mullion/pwsh/internal/cmdlet"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/rowtest"
)

// newSession returns a session in C:\work of a drive with some files.
func newSession(t testing.TB) *interp.Runner {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"work/Alpha.txt", "work/alto.log", "work/a b.txt", "work/beta.txt", "work/it's.txt",
		"work/x[1].txt", "work/sub/inner.txt", "work/sub/deep/leaf.txt", "work/dir two/in.txt", "work/getter.ps1",
		"tools/ping.exe", "tools/pinned.txt", "tools/my tool.exe"} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h, _ := rowtest.Handlers(t, io.Discard, io.Discard)
	h.Files = hosttest.Drive{Dir: dir}
	h.Env = hosttest.Env{"PATH": `C:\tools;C:\none`, "WORK": `C:\work`, "POD_NAME": "web-0", "ProgramFiles(x86)": ""}
	r, err := interp.New(interp.Config{Handlers: h, Library: cmdlet.Library(), Windows: true, Dir: `C:\work`})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	const session = `function Get-Greeting($Name, $Greeting) {}; Set-Alias gimme Get-Item; $message = 1; ` +
		`${my var} = 2; $menu = 'C:\work\sub'`
	if res, err := r.RunText(t.Context(), "", session); err != nil || !res.OK {
		t.Fatal(res, err)
	}
	return r
}

// TestNext types Tab, and Shift+Tab as a "<", at the end of lines.
func TestNext(t *testing.T) {
	r := newSession(t)
	for _, x := range []struct{ name, line, keys, want string }{
		{"a file", "cat be", ">", `cat .\beta.txt`},
		{"the case of the file", "cat ALP", ">", `cat .\Alpha.txt`},
		{"the next", "cat al", ">>", `cat .\alto.log`},
		{"round", "cat al", ">>>", `cat .\Alpha.txt`},
		{"backward", "cat al", "<", `cat .\alto.log`},
		{"forward and backward", "cat al", ">><", `cat .\Alpha.txt`},
		{"no match", "cat nosuch", ">", "cat nosuch"},
		{"no directory", `cat nosuch\x`, ">", `cat nosuch\x`},
		{"all", "cat ", ">", `cat '.\a b.txt'`},
		{"quotes", "cat a", ">", `cat '.\a b.txt'`},
		{"an open quote", "cat 'a b", ">", `cat '.\a b.txt'`},
		{"a closed quote", "cat 'a b'", ">", `cat '.\a b.txt'`},
		{"double quotes", `cat "a b`, ">", `cat ".\a b.txt"`},
		{"quotes that are not needed", "cat 'be", ">", `cat '.\beta.txt'`},
		{"an apostrophe", "cat it", ">", `cat '.\it''s.txt'`},
		{"brackets", "cat x", ">", "cat '.\\x`[1`].txt'"},
		{"brackets in double quotes", `cat "x`, ">", "cat \".\\x``[1``].txt\""},
		{"a directory part", `cat sub\i`, ">", `cat .\sub\inner.txt`},
		{"a slash", `cat sub/i`, ">", `cat .\sub\inner.txt`},
		{"below a directory with a blank", `cat 'dir two\`, ">", `cat '.\dir two\in.txt'`},
		{"an absolute path", `cat c:\work\be`, ">", `cat C:\work\beta.txt`},
		{"from the root", `cat \work\be`, ">", `cat C:\work\beta.txt`},
		{"the directory above", `cat ..\to`, ">", `cat ..\tools`},
		{"there and back", `cat ..\work\be`, ">", `cat .\beta.txt`},
		{"a pattern", "cat *.log", ">", `cat .\alto.log`},
		{"a variable in a path", `cat $env:WORK\be`, ">", `cat C:\work\beta.txt`},
		{"another variable in a path", `cat $menu\i`, ">", `cat C:\work\sub\inner.txt`},
		{"an unknown variable in a path", `cat $none\i`, ">", `cat $none\i`},
		{"after a parameter", "Get-Content -Path be", ">", `Get-Content -Path .\beta.txt`},
		{"in a list", "cat beta.txt,al", ">", `cat beta.txt,.\Alpha.txt`},
		{"behind a redirection", "1+1 > be", ">", `1+1 > .\beta.txt`},
		{"directories only", "cd ", ">>>", `cd '.\dir two'`},
		{"directories only, by name", "Set-Location s", ">", `Set-Location .\sub`},
		{"of a program", "ping al", ">", `ping .\Alpha.txt`},

		{"a cmdlet", "get-chi", ">", "Get-ChildItem"},
		{"several", "Get-Co", ">>", "Get-ComputerInfo"},
		{"a function", "get-gr", ">", "Get-Greeting"},
		{"an alias", "gim", ">", "gimme"},
		{"a program", "pin", ">", "ping.exe"},
		{"a program with a blank", "my", ">", "& 'my tool.exe'"},
		{"called already", "& my", ">", "& 'my tool.exe'"},
		{"a file before commands", "get", ">", `.\getter.ps1`},
		{"commands after files", "get", ">>", "Get-Acl"},
		{"a script", `.\ge`, ">", `.\getter.ps1`},
		{"a file with a blank as a command", `.\a`, ">", `& '.\a b.txt'`},
		{"a file with brackets as a command", `.\x`, ">", `.\x[1].txt`},
		{"in a pipeline", "cat x | sort-o", ">", "cat x | Sort-Object"},
		{"after a semicolon", "cd x; get-chi", ">", "cd x; Get-ChildItem"},
		{"in a block", "1..3 | % { get-chi", ">", "1..3 | % { Get-ChildItem"},
		{"behind a block", "ls | % { 1 } -pro", ">", "ls | % { 1 } -Process"},
		{"in parentheses", "(get-chi", ">", "(Get-ChildItem"},
		{"behind parentheses", "cat (1) be", ">", `cat (1) .\beta.txt`},
		{"in a condition", "if (1) { get-chi", ">", "if (1) { Get-ChildItem"},
		{"an assignment", "$x = get-chi", ">", "$x = Get-ChildItem"},
		{"an assignment without blanks", "$x=get-chi", ">", "$x=Get-ChildItem"},
		{"behind return", "return get-chi", ">", "return Get-ChildItem"},
		{"nothing", "", ">", ""},
		{"a new command", "cat x; ", ">", "cat x; "},
		{"a comment", "1 # be", ">", "1 # be"},

		{"a parameter", "Get-ChildItem -rec", ">", "Get-ChildItem -Recurse"},
		{"of an alias", "ls -rec", ">", "ls -Recurse"},
		{"all parameters", "Get-ChildItem -", ">", "Get-ChildItem -Path"},
		{"the last parameter", "Get-ChildItem -", "<", "Get-ChildItem -Confirm"},
		{"of a function", "Get-Greeting -", ">>", "Get-Greeting -Greeting"},
		{"no such parameter", "Get-ChildItem -nosuch", ">", "Get-ChildItem -nosuch"},

		{"a variable", "$mess", ">", "$message"},
		{"a variable as an argument", "cat $me", ">", "cat $menu"},
		{"an automatic one", "$psv", ">", "$PSVersionTable"},
		{"one with a blank", "$my", ">", "${my var}"},
		{"the one after it", "$my", ">>", "$MyInvocation"},
		{"of the environment", "$env:pod", ">", "$env:POD_NAME"},
		{"of the environment with braces", "$env:prog", ">", "${env:ProgramFiles(x86)}"},
		{"of another drive", "$none:x", ">", "$none:x"},
		{"members are not completed", "$message.Le", ">", "$message.Le"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, line := NewCycle(r), x.line
			for _, key := range x.keys {
				line = c.Next(line, key == '<')
			}
			if line != x.want {
				t.Errorf("%q becomes %q, want %q", x.line, line, x.want)
			}
		})
	}
}

// TestNextOfAnEditedLine: what was typed behind a completion is completed again.
func TestNextOfAnEditedLine(t *testing.T) {
	c := NewCycle(newSession(t))
	if got := c.Next(c.Next("cat al", false)+" be", false); got != `cat .\Alpha.txt .\beta.txt` {
		t.Error(got)
	}
	if got := c.Next("cat al", false); got != `cat .\Alpha.txt` {
		t.Error(got)
	}
}

// FuzzNext: what is on the line, Tab keeps the text before its last word.
func FuzzNext(f *testing.F) {
	for _, line := range []string{"cat be", "cat 'a b", "get-chi", "ls | % { 1 } -", "$env:p", "(((", ")}", "1 > `",
		`"$x\`} {
		f.Add(line)
	}
	r := newSession(f)
	f.Fuzz(func(t *testing.T, line string) {
		w := lastWord(line)
		if w.start < 0 || w.start > len(line) {
			t.Fatalf("%q: a word at %d", line, w.start)
		}
		if got := NewCycle(r).Next(line, false); !strings.HasPrefix(got, line[:w.start]) {
			t.Errorf("%q becomes %q", line, got)
		}
	})
}
