// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package standin_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/wine"
)

// testBuiltins runs batch files and compares what the commands of cmd.exe print with
// what Windows prints. In what is wanted, DATE, TIME and FREE are those of the
// moment.
func testBuiltins(t *testing.T, b *box) {
	t.Helper()
	const volume = " Volume in drive C has no label.\n Volume Serial Number is [0-9A-F]{4}-[0-9A-F]{4}\n\n"
	for name, tt := range map[string]struct {
		batch []string
		want  string
	}{
		"copy": {[]string{"copy one two", "copy o* sub", "md other", "copy sub other", "copy one sub >nul",
			"copy one sub\\three && echo ok", "for %%i in (4 5) do copy one %%i", "copy one one",
			`copy one nodir\x`, "copy nofile x", "echo y| copy /-y one two"},
			`        1 file\(s\) copied.
one
        1 file\(s\) copied.
sub\\one
        1 file\(s\) copied.
        1 file\(s\) copied.
ok
        1 file\(s\) copied.
        1 file\(s\) copied.
The file cannot be copied onto itself.
        0 file\(s\) copied.
The system cannot find the path specified.
        0 file\(s\) copied.
The system cannot find the file specified.
Overwrite C:\\work\\two\? .*        1 file\(s\) copied.
`},
		"copy several": {[]string{"echo x>a", "echo y>b", "copy a+b c", "copy a + b",
			"copy /b sub\\..\\b+one d", "type d", "copy ? e", "copy /a a f", "copy nul g",
			"copy ? sub", "copy nofile h", "echo %ERRORLEVEL%", "copy a b",
			"copy nofile*.txt sub"},
			`a
b
        1 file\(s\) copied.
a
b
        1 file\(s\) copied.
b
one
        1 file\(s\) copied.
y
one
a
b
c
d
        1 file\(s\) copied.
        1 file\(s\) copied.
        1 file\(s\) copied.
a
b
c
d
e
f
g
        7 file\(s\) copied.
The system cannot find the file specified.
1
        1 file\(s\) copied.
The system cannot find the file specified.
`},
		"a file that is being written": {[]string{"(echo b& type log >copy) >log", "type copy",
			"(echo c& findstr c >copy <log) >log", "type copy"}, "b\nc\n"},
		"move": {[]string{"move one two", "md dir", "move dir sub", "echo x>a1", "echo x>a2", "move a* sub",
			"move two three>nul", `move three nodir\x`, "echo %ERRORLEVEL%", "move nofile x", "echo %ERRORLEVEL%"},
			`        1 file\(s\) moved.
        1 dir\(s\) moved.
C:\\work\\a1
C:\\work\\a2
        2 file\(s\) moved.
The system cannot find the path specified.
        0 file\(s\) moved.
1
The system cannot find the file specified.
1
`},
		"links": {[]string{"mklink file one", "mklink /D dir sub", `mklink /D whole C:\work\sub`,
			"mklink /J junction sub", "echo xyz>own", "mklink /H hard own", "mklink file two", "echo %ERRORLEVEL%",
			`mklink /J no\x sub`,
			`echo x>junction\made`, `type sub\made file`, "dir", "dir /b", "rd junction dir whole", "dir /b"},
			`symbolic link created for file <<===>> one
symbolic link created for dir <<===>> sub
symbolic link created for whole <<===>> C:\\work\\sub
Junction created for junction <<===>> sub
Hardlink created for hard <<===>> own
Cannot create a file when that file already exists.
1
The system cannot find the path specified.
` + "\nsub\\\\made\n\n\nx\n\nfile\n\n\none\n" + volume + ` Directory of C:\\work

DATE  TIME    <DIR>          \.
DATE  TIME    <DIR>          \.\.
DATE  TIME    <SYMLINKD>     dir \[sub\]
DATE  TIME    <SYMLINK>      file \[one\]
DATE  TIME                 5 hard
DATE  TIME    <JUNCTION>     junction \[C:\\work\\sub\]
DATE  TIME                 5 one
DATE  TIME                 5 own
DATE  TIME    <DIR>          sub
DATE  TIME    <SYMLINKD>     whole \[C:\\work\\sub\]
               4 File\(s\)             15 bytes
               6 Dir\(s\) FREE bytes free
dir
file
hard
junction
one
own
sub
whole
file
hard
one
own
sub
`},
		"dir": {[]string{"dir", "dir nofile", "echo %ERRORLEVEL%", `dir /s sub`, "dir /b"}, volume +
			` Directory of C:\\work

DATE  TIME    <DIR>          \.
DATE  TIME    <DIR>          \.\.
DATE  TIME                 5 one
DATE  TIME    <DIR>          sub
               1 File\(s\)              5 bytes
               3 Dir\(s\) FREE bytes free
` + volume + ` Directory of C:\\work

File Not Found
1
` + volume + ` Directory of C:\\work\\sub

DATE  TIME    <DIR>          \.
DATE  TIME    <DIR>          \.\.
               0 File\(s\)              0 bytes

     Total Files Listed:
               0 File\(s\)              0 bytes
               2 Dir\(s\) FREE bytes free
one
sub
`},
		"codes": {[]string{"ehco x 2>nul", "echo %ERRORLEVEL%", "cd nodir 2>nul", "echo %ERRORLEVEL%",
			"type nofile 2>nul", "echo %ERRORLEVEL%", "del nofile 2>nul", "echo %ERRORLEVEL%",
			"ren nofile x 2>nul", "echo %ERRORLEVEL%", "cd .", `2>nul (echo x>nodir\x)`, "echo %ERRORLEVEL%",
			"cd .", "x: 2>nul", "echo %ERRORLEVEL%", "set /a 1/0 2>nul", "echo %ERRORLEVEL%", "cmd /c exit 3",
			"rd nodir 2>nul", "echo %ERRORLEVEL%"}, "9009\n1\n1\n0\n1\n1\n1\n1073750993\n3\n"},
		"set": {[]string{"set Path", "cmd /c set SystemRoot", "set com", "set public"},
			`Path=C:\\Windows\\system32;.*
PATHEXT=\.COM;\.EXE;\.BAT;\.CMD;.*
SystemRoot=C:\\Windows
CommonProgramFiles=(?s:.*)ComSpec=C:\\Windows\\system32\\cmd.exe
PUBLIC=C:\\Users\\Public
`},
		"input": {[]string{"echo echo x>in", "echo exit 4 >>in", "cmd <in", "echo %ERRORLEVEL%",
			`for %%i in ("a b") do echo y>%%i`, `type "a b"`},
			`Microsoft Windows \[Version 10.0.17763\]

C:\\work>echo x
x

C:\\work>exit 4 
4
y
`},
		"parentheses": {parensBatch, parensOutput},
		"blocks":      {blockBatch, blockOutput}, "chains": {chainBatch, chainOutput}, "pipes": {pipeBatch, pipeOutput},
		"branches": {branchBatch, branchOutput},
	} {
		t.Run("cmd: "+name, func(t *testing.T) {
			work := filepath.Join(b.root, wine.ContainerDrive, "work")
			if err := os.RemoveAll(work); err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{work, filepath.Join(work, "sub")} {
				if err := os.Mkdir(dir, 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(dir, 0o777); err != nil {
					t.Fatal(err)
				}
			}
			text := "@echo off\r\ncd /d C:\\work\r\n" + strings.Join(tt.batch, "\r\n") + "\r\n"
			script := filepath.Join(b.root, wine.ContainerDrive, "test.cmd")
			for file, content := range map[string]string{filepath.Join(work, "one"): "one\r\n", script: text} {
				if err := os.WriteFile(file, []byte(content), 0o777); err != nil {
					t.Fatal(err)
				}
			}
			want := strings.NewReplacer("DATE", `\d\d/\d\d/\d{4}`, "TIME", `\d\d:\d\d [AP]M`, "FREE",
				`[ \d,]{15}`).Replace(tt.want)
			out, _ := b.run(t, nil, "cmd", "/c", `C:\test.cmd`)
			if !regexp.MustCompile(`^(?:` + want + `)$`).MatchString(out) {
				t.Errorf("%s\nwant %s", out, want)
			}
		})
	}
}

// testPipedLines gives cmd.exe its commands by a pipe. It shows each behind the prompt, and reads no more than one line
// at a time: the next may be for a program.
func testPipedLines(t *testing.T, b *box) {
	t.Helper()
	for name, tt := range map[string]struct {
		lines []string
		want  string // behind the first prompt; PROMPT: an empty line and a prompt
		code  int
	}{
		"lines":           {[]string{"echo one", "echo two"}, "echo one\none\nPROMPTecho two\ntwo\nPROMPT", 0},
		"a program reads": {[]string{"findstr x", "axb", "cxd"}, "findstr x\naxb\ncxd\nPROMPT", 0},
		"cmd reads": {[]string{"cmd", "echo inner", "exit 2", "echo %ERRORLEVEL%"},
			"cmd\nBANNERecho inner\ninner\nPROMPTexit 2\nPROMPTecho %ERRORLEVEL%\n2\nPROMPT", 0},
		"variables": {[]string{"set A=1&& echo %A%", "echo %A%", "exit 5"},
			"set A=1&& echo %A%\n%A%\nPROMPTecho %A%\n1\nPROMPTexit 5\n", 5},
		"a block": {[]string{"(", "echo a", "echo b", ") >C:\\work\\f", "", "type C:\\work\\f"},
			"(\nMore? echo a\nMore? echo b\nMore? ) >C:\\work\\f\nPROMPT\nPROMPTtype C:\\work\\f\na\nb\nPROMPT", 0},
		"several lines": {[]string{"(", "echo a", "echo b)", "type nofile || echo c"},
			"(\nMore? echo a\nMore? echo b)\na\nb\nPROMPTtype nofile || echo c\n" +
				"The system cannot find the file specified.\nc\nPROMPT", 0},
		"echo off": {[]string{"@echo off", "echo x", "ping -n 1 127.0.0.1 >nul", "echo y"}, "@echo off\nx\ny\n", 0},
	} {
		t.Run("cmd: piped "+name, func(t *testing.T) {
			const banner = "Microsoft Windows [Version 10.0.17763]\nPROMPT"
			want := strings.NewReplacer("BANNER", banner).Replace(banner + tt.want)
			want = strings.ReplaceAll(want, "PROMPT", "\nC:\\>")
			out, code := b.feed(t, nil, strings.NewReader(strings.Join(tt.lines, "\r\n")+"\r\n"), "cmd")
			if out != want || code != tt.code {
				t.Errorf("exit %d, %s\nwant %d, %s", code, out, tt.code, want)
			}
		})
	}
}
