// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hinshun/vt10x"
	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// terminal is a person at a terminal who runs kubectl: keys go into a
// pseudo-terminal, and an emulator keeps what it shows.
type terminal struct {
	*testing.T
	master *os.File
	cmd    *exec.Cmd
	ended  chan error

	mu     sync.Mutex
	screen vt10x.Terminal
	raw    strings.Builder // everything that came
}

// kubectlAt runs kubectl in a terminal of the size.
func (c *shared) kubectlAt(t *testing.T, rows, columns uint16, args ...string) *terminal {
	t.Helper()
	master, slave := testenv.Terminal(t)
	tm := &terminal{T: t, master: master, ended: make(chan error, 1)}
	tm.screen = vt10x.New(vt10x.WithSize(int(max(columns, 1)), int(max(rows, 1))))
	tm.resize(rows, columns)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	args = append([]string{"kubectl", "--name", c.name, "--data-dir", c.dir}, args...)
	tm.cmd = exec.CommandContext(ctx, testenv.Bin("mullion"), args...)
	tm.cmd.Stdin, tm.cmd.Stdout, tm.cmd.Stderr = slave, slave, slave
	tm.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := tm.cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	_ = slave.Close() // the program has it
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			if err != nil {
				return
			}
			tm.mu.Lock()
			tm.raw.Write(buffer[:n])
			_, _ = tm.screen.Write(buffer[:n]) // an emulator in memory
			tm.mu.Unlock()
		}
	}()
	go func() {
		err := tm.cmd.Wait()
		<-read
		tm.ended <- err
	}()
	t.Cleanup(cancel)
	return tm
}

func (tm *terminal) resize(rows, columns uint16) {
	tm.Helper()
	size := &unix.Winsize{Row: rows, Col: columns}
	if err := unix.IoctlSetWinsize(int(tm.master.Fd()), unix.TIOCSWINSZ, size); err != nil {
		tm.Fatal(err)
	}
	tm.mu.Lock()
	defer tm.mu.Unlock()
	tm.screen.Resize(int(max(columns, 1)), int(max(rows, 1)))
}

// typing sends keys.
func (tm *terminal) typing(keys string) {
	tm.Helper()
	if _, err := io.WriteString(tm.master, keys); err != nil {
		tm.Fatal(err)
	}
}

// shows waits until the screen's last rows are the wanted ones. Rows are compared
// without blanks at their ends; empty rows at the end do not count.
func (tm *terminal) shows(want string) {
	tm.Helper()
	var got string
	eventually(tm.T, 30*time.Second, "the screen", func() error {
		tm.mu.Lock()
		defer tm.mu.Unlock()
		var rows []string
		for row := range strings.Lines(tm.screen.String()) {
			rows = append(rows, strings.TrimRight(row, " \n"))
		}
		got = strings.TrimRight(strings.Join(rows, "\n"), "\n")
		if !strings.HasSuffix("\n"+got, "\n"+want) {
			return fmt.Errorf("shows\n%s\nwant at its end\n%s", got, want)
		}
		return nil
	})
}

// sees waits for text anywhere in what came.
func (tm *terminal) sees(want string) {
	tm.Helper()
	eventually(tm.T, 30*time.Second, "the output", func() error {
		tm.mu.Lock()
		defer tm.mu.Unlock()
		if !strings.Contains(tm.raw.String(), want) {
			return fmt.Errorf("%q is not in what came:\n%s", want, tm.screen.String())
		}
		return nil
	})
}

// exits waits for kubectl's end with the code.
func (tm *terminal) exits(code int) {
	tm.Helper()
	select {
	case err := <-tm.ended:
		got := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			got = exit.ExitCode()
		}
		if got != code {
			tm.Errorf("kubectl exited with %d, want %d:\n%s", got, code, tm.screen.String())
		}
	case <-time.After(2 * time.Minute):
		tm.Errorf("kubectl has not ended:\n%s", tm.screen.String())
	}
}

// Keys as terminals send them.
const (
	enter, back, ctrlC, ctrlZ = "\r", "\x7f", "\x03", "\x1a"
	upKey, left, home, end    = "\x1b[A", "\x1b[D", "\x1b[H", "\x1b[F"
	// Ctrl+Break has no other form: win32-input-mode, as Windows Terminal sends it.
	ctrlBreak = "\x1b[3;70;0;1;8;1_\x1b[3;70;0;0;8;1_"
)

const terminalPod = onNode + `
  containers:
  - {name: main, image: "` + winprogImage + `", imagePullPolicy: Never, args: [wait]}`

// step is something typed, and what the screen then ends with.
type step struct{ keys, screen string }

// TestTerminals types into each kind of program, through `kubectl exec -it`.
func TestTerminals(t *testing.T) {
	t.Parallel()
	c := up(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	c.pod(t, ns, "terminal", terminalPod)
	c.ready(t, ns, "terminal")
	for _, line := range []string{"@echo off", "set /p NAME=name? ", "echo hello %NAME%"} {
		c.exec(t, ns, "terminal", "powershell", "-Command", `Add-Content C:\Windows\Temp\ask.bat '`+line+`'`)
	}
	programs := []struct {
		name    string
		command []string
		begin   string // the screen before the first key
		steps   []step
		end     string // keys that end it
		code    int
	}{
		{
			name: "cmd", command: []string{"cmd"}, begin: `C:\app>`, end: "exit 3" + enter, code: 3,
			steps: []step{
				{"echo one" + enter, "C:\\app>echo one\none\n\nC:\\app>"},
				{"echo tXwo" + left + left + back + enter, "C:\\app>echo two\ntwo\n\nC:\\app>"},
				{upKey + upKey + enter, "C:\\app>echo one\none\n\nC:\\app>"},
				{"cho three" + home + "e" + end + "!" + enter, "C:\\app>echo three!\nthree!\n\nC:\\app>"},
				{"echo äöü €" + enter, "C:\\app>echo äöü €\näöü €\n\nC:\\app>"},
				{"abc" + ctrlC, "C:\\app>abc^C\nC:\\app>"},
				{"echo after" + enter, "C:\\app>echo after\nafter\n\nC:\\app>"},
				{"cmd /c exit 5" + enter + "echo %errorlevel%" + enter, "C:\\app>echo %errorlevel%\n5\n\nC:\\app>"},
			},
		},
		{
			name: "powershell", command: []string{"powershell", "-NoLogo"}, begin: `PS C:\app>`,
			end: "exit 4" + enter, code: 4,
			steps: []step{
				{"1 + 1" + enter, "PS C:\\app> 1 + 1\n2\nPS C:\\app>"},
				{"'aXb'" + left + left + back + enter, "PS C:\\app> 'ab'\nab\nPS C:\\app>"},
				{upKey + enter, "PS C:\\app> 'ab'\nab\nPS C:\\app>"},
				{"write-ho\t 3" + enter, "PS C:\\app> Write-Host 3\n3\nPS C:\\app>"},
				{"'äöü €'" + enter, "PS C:\\app> 'äöü €'\näöü €\nPS C:\\app>"},
				{"abc" + ctrlC, "PS C:\\app> abc^C\nPS C:\\app>"},
				{"Start-Sleep 100" + enter, "PS C:\\app> Start-Sleep 100"},
				{ctrlC, "PS C:\\app> Start-Sleep 100\nPS C:\\app>"},
				{"if ($true) {" + enter + "'yes' }" + enter, "PS C:\\app> if ($true) {\n>> 'yes' }\nyes\nPS C:\\app>"},
			},
		},
		{
			name: "Go", command: []string{`C:\app\winprog.exe`, "lines"}, begin: "ready", end: "exit" + enter, code: 6,
			steps: []step{
				{"one" + enter, "ready\none\n<one>"},
				{"tXo" + left + back + "w" + enter, "two\n<two>"},
				{"äöü €" + enter, "äöü €\n<äöü €>"},
				// Go leaves the end of the line for the next read.
				{ctrlZ + enter, "^Z\nend of input\n<>"},
				{"more" + enter, "more\n<more>"},
			},
		},
		{
			name: "batch file", command: []string{`C:\Windows\Temp\ask.bat`}, begin: "name?",
			end: "World" + enter, code: 0, steps: []step{{"Wx" + back, "name? W"}, {back, "name?"}},
		},
	}
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			tm := c.kubectlAt(t, 30, 90, append([]string{"exec", "-it", "-n", ns, "terminal", "--"}, p.command...)...)
			tm.shows(p.begin)
			for _, s := range p.steps {
				tm.typing(s.keys)
				tm.shows(s.screen)
			}
			tm.typing(p.end)
			tm.exits(p.code)
		})
	}
	testInterrupts(t, c, ns)
	t.Run("no desktop", func(t *testing.T) {
		if err := c.runs(t, ns, "explorer", 0); err != nil {
			t.Error(err)
		}
	})
	t.Run("colors", func(t *testing.T) {
		tm := c.kubectlAt(t, 30, 90, "exec", "-it", "-n", ns, "terminal", "--", `C:\app\winprog.exe`, "colors")
		tm.exits(0)
		tm.mu.Lock()
		defer tm.mu.Unlock()
		for x, want := range []vt10x.Color{vt10x.Red, vt10x.LightGreen, vt10x.DefaultFG} {
			if got := tm.screen.Cell(x, 0); got.FG != want || got.Char != rune('a'+x) {
				t.Errorf("character %d: %c in color %d, want %d", x, got.Char, got.FG, want)
			}
		}
	})
	t.Run("sizes", func(t *testing.T) { testSizes(t, c, ns) })
	t.Run("paste", func(t *testing.T) { testPaste(t, c, ns) })
	t.Run("a program sends Ctrl+Break", func(t *testing.T) {
		tm := c.kubectlAt(t, 30, 90, "exec", "-it", "-n", ns, "terminal", "--", `C:\app\winprog.exe`, "break")
		tm.sees("unknown group: The parameter is incorrect.")
		tm.sees("child: exit status 5") // it handled the event
		tm.sees("parent: left alone")
		tm.exits(0)
	})
	t.Run("vanished", func(t *testing.T) {
		tm := c.kubectlAt(t, 30, 90, "exec", "-it", "-n", ns, "terminal", "--", "cmd")
		tm.shows(`C:\app>`)
		tm.typing("ping -t 127.0.0.1" + enter)
		tm.sees("Reply from 127.0.0.1")
		if err := tm.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for _, program := range []string{"ping", "cmd", "conhost"} {
			eventually(t, time.Minute, "the end of "+program, func() error { return c.runs(t, ns, program, 0) })
		}
	})
}

// testInterrupts: Ctrl+C and Ctrl+Break reach the program in the foreground.
func testInterrupts(t *testing.T, c *shared, ns string) {
	t.Run("interrupt", func(t *testing.T) {
		tm := c.kubectlAt(t, 30, 90, "exec", "-it", "-n", ns, "terminal", "--", "cmd")
		tm.shows(`C:\app>`)
		tm.typing("ping -t 127.0.0.1" + enter)
		tm.sees("Reply from 127.0.0.1")
		tm.typing(ctrlC)
		tm.sees("Ping statistics")
		tm.shows("Control-C\n^C\n\nC:\\app>")
		tm.typing("echo %errorlevel%" + enter)
		tm.shows("C:\\app>echo %errorlevel%\n-1073741510\n\nC:\\app>")
		tm.typing("exit 0" + enter)
		tm.exits(0)
	})
	t.Run("interrupted to the end", func(t *testing.T) {
		tm := c.kubectlAt(t, 30, 90, "exec", "-it", "-n", ns, "terminal", "--", `C:\app\winprog.exe`, "wait")
		eventually(t, time.Minute, "the program", func() error { return c.runs(t, ns, "winprog", 2) })
		tm.typing(ctrlC)
		// kubectl knows codes to 255 only; so it does with Windows' containers.
		tm.sees(`invalid exit code value "3221225786"`) // STATUS_CONTROL_C_EXIT
		tm.exits(1)
	})
	t.Run("break", func(t *testing.T) {
		tm := c.kubectlAt(t, 30, 90, "exec", "-it", "-n", ns, "terminal", "--", `C:\app\winprog.exe`, "lines")
		tm.shows("ready")
		tm.typing("abc" + ctrlBreak)
		tm.sees("console event: 1")
		tm.sees("end of input") // the read was cut off
		tm.typing("exit" + enter)
		tm.exits(6)
	})
}

// testPaste: text that arrives at once is read line by line.
func testPaste(t *testing.T, c *shared, ns string) {
	tm := c.kubectlAt(t, 30, 90, "exec", "-it", "-n", ns, "terminal", "--", `C:\app\winprog.exe`, "lines")
	tm.shows("ready")
	var pasted strings.Builder
	for i := range 200 {
		fmt.Fprintf(&pasted, "%04d %s\r", i, strings.Repeat("äx", 15))
	}
	tm.typing(pasted.String())
	for _, i := range []int{0, 99, 199} {
		tm.sees(fmt.Sprintf("<%04d %s>", i, strings.Repeat("äx", 15)))
	}
	tm.typing("exit" + enter)
	tm.exits(6)
}

// testSizes: a program sees the size of the window and its changes, and works in
// windows of any size.
func testSizes(t *testing.T, c *shared, ns string) {
	tm := c.kubectlAt(t, 30, 100, "exec", "-it", "-n", ns, "terminal", "--", `C:\app\winprog.exe`, "console")
	// kubectl sends the size after the start: the program begins with it or is told.
	tm.sees(": 100x30")
	tm.resize(50, 132)
	tm.sees("resized: 132x50")
	tm.sees("console: 132x50")
	tm.typing("q")
	tm.exits(0)
	for _, s := range []struct{ rows, columns uint16 }{{0, 0}, {1, 1}, {500, 500}} {
		tm := c.kubectlAt(t, s.rows, s.columns, "exec", "-it", "-n", ns, "terminal", "--", "cmd")
		if s.rows != 1 {
			tm.sees(`C:\app>`)
		}
		tm.typing("exit 9" + enter)
		tm.exits(9)
	}
}

// runs checks how many processes of a name run in the container.
func (c *shared) runs(t *testing.T, ns, program string, want int) error {
	t.Helper()
	out, err := c.kubectlErr(t.Context(), "exec", "-n", ns, "terminal", "--", "powershell", "-Command",
		"@(Get-Process -Name "+program+" -ErrorAction SilentlyContinue).Count")
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(out); got != fmt.Sprint(want) {
		return fmt.Errorf("%s runs %s times, want %d", program, got, want)
	}
	return nil
}

// TestAttachedShell: a shell that is the container's own program goes on when its
// terminal is left, and shows its screen to the next one.
func TestAttachedShell(t *testing.T) {
	t.Parallel()
	c := up(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	c.pod(t, ns, "shell", onNode+`
  containers:
  - {name: main, image: "`+winprogImage+`", imagePullPolicy: Never, command: [cmd], stdin: true, tty: true}`)
	c.ready(t, ns, "shell")
	attach := func() *terminal {
		tm := c.kubectlAt(t, 30, 90, "attach", "-it", "-n", ns, "shell")
		tm.shows(`C:\app>`)
		return tm
	}
	first := attach()
	first.typing("set LEFT=behind" + enter)
	first.shows("C:\\app>set LEFT=behind\n\nC:\\app>")
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-first.ended; err == nil {
		t.Error("kubectl ended by itself")
	}
	second := attach()
	second.shows("C:\\app>set LEFT=behind\n\nC:\\app>")
	second.typing("echo %LEFT%" + enter)
	second.shows("C:\\app>echo %LEFT%\nbehind\n\nC:\\app>")
	second.typing("exit 5" + enter)
	second.exits(0)
	c.until(t, ns, "shell", "{.status.containerStatuses[0].lastState.terminated.exitCode}", "5")
}

// TestRunShell: `kubectl run -it --rm` gives a shell and its exit code.
func TestRunShell(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	tm := c.kubectlAt(t, 30, 90, "run", "-it", "--rm", "--restart=Never", "-n", ns, "shell",
		"--image=mcr.microsoft.com/windows/servercore:ltsc2019", "--", "cmd")
	tm.shows(`C:\>`)
	tm.typing("echo hello" + enter)
	tm.shows("C:\\>echo hello\nhello\n\nC:\\>")
	tm.typing("exit 8" + enter)
	tm.exits(8)
}

// TestPipes: without a terminal standard input and output are pipes, which take a
// hundred megabytes each way.
func TestPipes(t *testing.T) {
	t.Parallel()
	c := up(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	c.pod(t, ns, "terminal", terminalPod)
	c.ready(t, ns, "terminal")
	const size = 100 << 20
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, testenv.Bin("mullion"), "kubectl", "--name", c.name, "--data-dir", c.dir,
		"exec", "-i", "-n", ns, "terminal", "--", `C:\app\winprog.exe`, "copy")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * 7)
	}
	go func() {
		for range size / len(block) {
			if _, err := in.Write(block); err != nil {
				return // the reader below says what is missing
			}
		}
		_ = in.Close()
	}()
	got := make([]byte, len(block))
	for i := range size / len(block) {
		if _, err := io.ReadFull(out, got); err != nil || string(got) != string(block) {
			t.Fatalf("megabyte %d is not what was sent: %v", i, err)
		}
	}
	if rest, err := io.ReadAll(out); len(rest) > 0 || err != nil {
		t.Errorf("%d bytes more than sent, %v", len(rest), err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
