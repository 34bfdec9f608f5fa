// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package standin_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/standin"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/wine"
)

func TestMain(m *testing.M) {
	testenv.EnterWine()
	m.Run()
}

// box runs Windows programs in the root of an image.
type box struct {
	root string
}

// newBox stacks an image on the Wine layers. It is far less than a container:
// namespaces of its own and a chroot, enough to see which program answers.
func newBox(t *testing.T, linux, drive []string) *box {
	t.Helper()
	work := t.TempDir()
	root := stack(t, filepath.Join(work, "linux"), linux)
	for _, d := range []string{"dev", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(root, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range []string{"null", "zero", "urandom", "random", "full"} {
		minor := []int{3, 5, 9, 8, 7}[i]
		if err := syscall.Mknod(filepath.Join(root, "dev", name), syscall.S_IFCHR|0o666, 1<<8|minor); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(root, "dev", name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	at := filepath.Join(root, wine.ContainerDrive)
	if err := syscall.Mount(stack(t, filepath.Join(work, "drive"), drive), at, "", syscall.MS_BIND, ""); err != nil {
		t.Fatalf("mount drive C: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return &box{root}
}

// stack mounts layers, lowest first, and a writable one, and returns where.
func stack(t *testing.T, work string, layers []string) string {
	t.Helper()
	merged, upper := filepath.Join(work, "merged"), filepath.Join(work, "upper")
	for _, d := range []string{upper, filepath.Join(work, "work"), merged} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(upper, image.DefaultID, image.DefaultID); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(layers)
	options := "lowerdir=" + strings.Join(layers, ":") + ",upperdir=" + upper +
		",workdir=" + filepath.Join(work, "work")
	if err := syscall.Mount("overlay", merged, "overlay", 0, options); err != nil {
		t.Fatalf("mount overlay: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(merged, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return merged
}

// run starts a program and returns what it printed and its exit code. All of
// its processes end with it, because they share a PID namespace.
func (b *box) run(t *testing.T, env []string, args ...string) (string, int) {
	t.Helper()
	return b.feed(t, env, nil, args...)
}

// feed does so with a program that reads.
func (b *box) feed(t *testing.T, env []string, stdin io.Reader, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	argv, environ, _ := wine.ContainerProcess(wine.Process{Args: args, Env: env})
	resolver := "nameserver 10.96.0.10\nsearch default.svc.cluster.local svc.cluster.local\n"
	if err := os.WriteFile(filepath.Join(b.root, "etc", "resolv.conf"), []byte(resolver), 0o644); err != nil {
		t.Fatal(err)
	}
	script := `ip link set lo up; ip -6 address add fd00::5/64 dev lo nodad; ` +
		`echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start; ` +
		`echo 0 2147483647 >/proc/sys/net/ipv4/ping_group_range; mount -t proc proc ` +
		`"$0/proc" && exec chroot --userspec=64000:64000 --groups= "$0" "$@"`
	cmd := exec.CommandContext(ctx, "unshare",
		append([]string{"--fork", "--kill-child", "--pid", "--mount", "--net", "--ipc", "--uts", "sh", "-c", script,
			b.root}, argv...)...)
	cmd.Stdin = stdin
	cmd.Env = append(environ, "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(out), "\r\n", "\n"), cmd.ProcessState.ExitCode()
}

// testCommandPrompt looks at the messages and exit codes of cmd.exe for common
// mistakes, and at what its programs find in the environment.
func testCommandPrompt(t *testing.T, b *box) {
	t.Helper()
	const syntax = "The syntax of the command is incorrect.\n"
	for _, tt := range []struct {
		line, want string
		code       int
	}{
		{"nosuch", "'nosuch' is not recognized as an internal or external command,\n" +
			"operable program or batch file.\n", 1},
		{"nosuch with arguments", "'nosuch' is not recognized as an internal or external command,\n" +
			"operable program or batch file.\n", 1},
		{"type", syntax, 1},
		{"type nofile", "The system cannot find the file specified.\n", 1},
		{`type nodir\nofile`, "The system cannot find the path specified.\n", 1},
		{`type C:\Windows`, "Access is denied.\n", 1},
		{"copy nofile x", "The system cannot find the file specified.\n", 1},
		{`del C:\Users\nofile`, "Could Not Find C:\\Users\\nofile\n", 0},
		{`del nodir\nofile`, "The system cannot find the path specified.\n", 1},
		{"del /s *.no nofile", "Could Not Find C:\\*.no\nCould Not Find C:\\nofile\n", 0},
		{"cd \\Users& del nofile", "Could Not Find C:\\Users\\nofile\n", 0},
		{"move nofile x", "The system cannot find the file specified.\n", 1},
		{"ren nofile x", "The system cannot find the file specified.\n", 1},
		{"rd nodir", "The system cannot find the file specified.\n", 2},
		{"rd C:\\Users", "The directory is not empty.\n", 145},
		{"md C:\\Users", "A subdirectory or file C:\\Users already exists.\n", 1},
		{"cd nodir", "The system cannot find the path specified.\n", 1},
		{"x:", "The system cannot find the drive specified.\n", 1},
		{"if", syntax, 1},
		{"for", syntax, 1},
		{"set /a 1/0", "Divide by zero error.\n", 1073750993},
		{"set /a 1+", "Missing operand.\n", 1073750989},
		{"set nothing", "Environment variable nothing not defined\n", 1},
		{`echo x>nodir\file`, "The system cannot find the path specified.\n", 1},
		{"assoc .nosuch", "File association not found for extension .nosuch\n", 1},
		{"call :label", "Invalid attempt to call batch label outside of batch script.\n", 1},
		{`(echo X)>C:\f& type C:\f`, "X\n", 0},
		{`(echo a&echo b) | findstr b`, "b\n", 0},
		{`if 1==1 (echo yes)>>C:\f`, "", 0},
		{`(type C:\f) | findstr /n e`, "2:yes\n", 0},
		{"type nofile && echo no", "The system cannot find the file specified.\n", 1},
		{"ver >nul && cmd /c exit 3 || exit 4", "", 4},
		{"cmd /c exit 3 || cmd /c exit 5", "", 5},
		{"cmd /c exit 3 && exit 4", "", 3},
		{"echo a b|findstr a&&exit 7", "a b\n", 7},
		{"for %i in (1 2) do echo %i& echo -", "1\n-\n2\n-\n", 0},
		{"ver >nul && if 1==2 echo no& (echo no)", "", 0},
		{"if 1==1 echo yes (really)& echo no (b)", "yes (really)\nno (b)\n", 0},
		{`echo a b|(findstr a & echo c)`, "a b\nc\n", 0},
		// Variables have the values of the time when the line was read.
		{"set A=1&& echo %A%", "%A%\n", 0},
		{"set A=1&& call echo %A%", "1\n", 0},
		{"set OS=x& echo %OS%& call echo %os%", "Windows_NT\nWindows_NT\n", 0},
		{"set A=1& cmd /c echo %A%", "1\n", 0},
		{"cmd /v:on /c set OS=x^& echo %NO% !OS!", "%NO% x\n", 0},
		{"echo %OS:~0,3% %OS:_=-% %NO%", "Win Windows-NT %NO%\n", 0},
		{"cmd /c exit 3 & echo %ERRORLEVEL%& set ERRORLEVEL=x", "0\n", 0},
		{"cd Windows & echo %CD%& cd", "C:\\\nC:\\Windows\n", 0},
		// exit without a number keeps ERRORLEVEL.
		{"cmd /c exit 3 & exit", "", 3},
		{"cmd /c exit 3 & exit /b", "", 3},
		{"type nofile & exit", "The system cannot find the file specified.\n", 1},
		{"cmd /c exit 3 & exit /b 0", "", 0},
		// The last command decides, or exit does.
		{"type nofile & exit 0", "The system cannot find the file specified.\n", 0},
		{"rd nodir & cd .", "The system cannot find the file specified.\n", 0},
	} {
		t.Run("cmd: "+tt.line, func(t *testing.T) {
			out, code := b.run(t, nil, "cmd", "/c", tt.line)
			if out != tt.want || code != tt.code&0xff {
				t.Errorf("exit %d, %q\nwant %d, %q", code, out, tt.code, tt.want)
			}
		})
	}
	for who, args := range map[string][]string{
		"program":           {"cmd", "/c", "set"},
		"child":             {"cmd", "/c", "cmd /c set"},
		"child of a Go one": {"powershell", "-c", "cmd /c set"},
	} {
		out, code := b.run(t, []string{"USER=of the manifest", "Greeting=hello"}, args...)
		for line := range strings.Lines(out) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			foreign := strings.HasPrefix(name, "WINE") || strings.HasPrefix(name, "MULLION") ||
				slices.Contains([]string{"LC_ALL", "HOME", "LANG", "winsysdir", "SESSIONNAME", "HOMEPATH"}, name)
			if foreign || name == "USER" && value != "of the manifest" {
				t.Errorf("%s: environment has %s", who, line)
			}
		}
		if code != 0 || !strings.Contains(out, "Greeting=hello\n") || !strings.Contains(out, "USER=of the manifest\n") {
			t.Errorf("%s: exit %d, %q", who, code, out)
		}
	}
}

// TestProgramsUnderWine runs the stand-ins' programs as containers would: the
// file of the stand-in must win over Wine's own of the same name.
func TestProgramsUnderWine(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Wine, testenv.Built)
	cache := testenv.Cache(t)
	log := slog.New(slog.DiscardHandler)
	runtime, err := wine.OpenRuntime(t.Context(), cache, testenv.Bin(), log)
	if err != nil {
		t.Fatal(err)
	}
	host := find(t, "2019")
	base, err := runtime.ContainerLayers(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	account, err := runtime.AccountLayer(t.Context(), wine.Accounts()[0])
	if err != nil {
		t.Fatal(err)
	}
	c := prepare(t, cache, standin.Programs{Winbox: testenv.Bin("windows", "winbox.exe"),
		PowerShell: testenv.Bin("windows", "powershell.exe")})
	s := openStore(t, cache, c, host)
	in := func(name string) *box {
		img, err := s.Pull(t.Context(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		linux, err := runtime.LinuxLayers(t.Context(), host, wine.Accounts()[0])
		if err != nil {
			t.Fatal(err)
		}
		return newBox(t, linux, append(append(slices.Clone(base), img.Layers...), account))
	}
	core := in("mcr.microsoft.com/windows/servercore:ltsc2019")
	nano := in("mcr.microsoft.com/windows/nanoserver:1809")
	web := in("mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2019")
	pwsh := in("mcr.microsoft.com/powershell:lts-nanoserver-1809")
	for _, tt := range []struct {
		name string
		box  *box
		args []string
		want string // in the output
		code int
	}{
		{"ping by path", core, []string{`C:\Windows\System32\ping.exe`, "-n", "1", "localhost"},
			"Reply from 127.0.0.1: bytes=32 time<1ms TTL=128", 0},
		{"ping by name", core, []string{"ping", "-n", "1", "127.0.0.1"}, "\nPinging 127.0.0.1 with 32 bytes of data:\n",
			0},
		{"ping from cmd", core, []string{"cmd", "/c", "ping -n 1 127.0.0.1"},
			"\nPinging 127.0.0.1 with 32 bytes of data:\n", 0},
		{"ping in IPv6", core, []string{"ping", "-n", "1", "fd00::5"},
			"\nPinging fd00::5 with 32 bytes of data:\nReply from fd00::5: time<1ms \n", 0},
		{"ping without a way", core, []string{"ping", "-n", "1", "2001:db8::1"}, "\nGeneral failure.\n", 1},
		{"routes of IPv6", core, []string{"route", "print", "-6"},
			"\n  1    331 ::1/128                  On-link\n", 0},
		{"pipe in cmd", core, []string{"cmd", "/c", "echo one two| find \"two\""}, "one two\n", 0},
		{"findstr in cmd", core, []string{"cmd", "/c", "echo one two| findstr /r t.o$"}, "one two\n", 0},
		{"whoami", core, []string{"whoami"}, `user manager\`, 0},
		{"ipconfig", core, []string{"ipconfig", "/all"}, "   IP Routing Enabled. . . . . . . . : No\n", 0},
		{"search list", core, []string{"ipconfig", "/all"},
			"   DNS Suffix Search List. . . . . . : default.svc.cluster.local\n" +
				"                                       svc.cluster.local\n", 0},
		{"systeminfo", core, []string{"systeminfo"},
			"OS Name:                   Microsoft Windows Server 2019 Datacenter\n", 0},
		{"tasklist", core, []string{"tasklist"}, "tasklist.exe", 0},
		{"where", core, []string{"where", "curl"}, `\curl.exe`, 0},
		{"net", core, []string{"net", "localgroup", "hpc", "/add"}, "The command completed successfully.", 0},
		{"curl", core, []string{"curl", "http://127.0.0.1:1/"}, "curl: (7) Failed to connect to 127.0.0.1 port 1", 7},
		{"nltest", core, []string{"nltest", "/parentdomain"}, "RPC_S_SERVER_UNAVAILABLE", 1},
		{"powershell", core, []string{"powershell", "-Command", "Write-Output ('a' + 'b')"}, "ab\n", 0},
		{"parent of the first program", core, []string{"powershell", "-Command",
			"$all = Get-CimInstance Win32_Process; $me = $all | where ProcessId -eq $PID; " +
				"($all | where ProcessId -eq $me.ParentProcessId).Name"}, "services\n", 0},
		// What critest's Windows variant runs in its containers.
		{"critest pauses", core, []string{"powershell", "-c", "ping -n 1 localhost"}, "Reply from 127.0.0.1", 0},
		{"critest reads the name resolution", core, []string{"powershell", "/c", "ipconfig /all"},
			"Windows IP Configuration", 0},
		{"critest looks for processes", core, []string{"powershell", "-c", "get-process | findstr sleep; exit 0"}, "",
			0},
		{"critest lists a directory", core, []string{"powershell", "-c", "ls", `C:\users`}, "", 0},
		{"critest says hello", core, []string{"powershell", "-c", "echo hello"}, "hello\n", 0},
		{"ping in Nano Server", nano, []string{"ping", "-n", "1", "127.0.0.1"}, "Reply from 127.0.0.1: bytes=32", 0},
		{"pwsh", pwsh, []string{`C:\Program Files\PowerShell\pwsh.exe`, "-Command", "Write-Output ('a' + 'b')"},
			"ab\n", 0},
		{"the web server's monitor", web, []string{`C:\ServiceMonitor.exe`, "other"}, "Service 'other' does not exist",
			1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, code := tt.box.run(t, []string{"USERNAME=ContainerAdministrator"}, tt.args...)
			if code != tt.code || !strings.Contains(out, tt.want) {
				t.Errorf("exit %d, %q\nwant %d, %q", code, out, tt.code, tt.want)
			}
		})
	}
	testCommandPrompt(t, core)
	testBuiltins(t, core)
	testPipedLines(t, core)
	// The site is served on port 80, by the image's own entry point.
	out, code := web.run(t, nil, "cmd", "/c",
		`start /b C:\ServiceMonitor.exe w3svc & curl -s --retry 8 --retry-connrefused -i http://localhost/ & findstr `+
			`GET C:\inetpub\logs\LogFiles\W3SVC1\*.log`)
	for _, want := range []string{"Service 'w3svc' started", "HTTP/1.1 200 OK", "Server: Microsoft-IIS/10.0",
		"<title>IIS Windows Server</title>", " GET / - 80 - 127.0.0.1 curl/"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("web server: exit %d, %q\nwant %q", code, out, want)
		}
	}
	// Nano Server has no Windows PowerShell, and Wine's stub must not answer.
	if out, code := nano.run(t, nil, "powershell", "-Command", "exit 0"); code == 0 {
		t.Errorf("powershell in Nano Server: exit 0, %q", out)
	}
}
