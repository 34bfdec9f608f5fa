// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/winsys/cmdline"
)

// image returns the headers of a program without sections.
func image(machineType uint16) []byte {
	le := binary.LittleEndian
	data := make([]byte, dosHeaderSize+peHeaderSize+2)
	copy(data, "MZ")
	le.PutUint32(data[peOffset:], dosHeaderSize)
	header := data[dosHeaderSize:]
	copy(header, "PE")
	le.PutUint16(header[machine:], machineType)
	le.PutUint16(header[optionalHeaderSize:], 2)
	le.PutUint16(header[optionalMagic:], magic64)
	return data
}

// tree makes a directory that stands for drive C:.
func tree(t *testing.T, files ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, f := range files {
		p := filepath.Join(root, filepath.FromSlash(f))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f, "/") {
			if err := os.MkdirAll(p, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(p, image(machineAMD64), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestPlan(t *testing.T) {
	root := tree(t, "windows/system32/cmd.exe", "windows/system32/ping.exe", "App/Server.EXE", "App/start.CMD",
		"App/tool", "data/")
	if err := os.WriteFile(filepath.Join(root, "App", "linux.exe"), []byte("\x7fELF"), 0o755); err != nil {
		t.Fatal(err)
	}
	const (
		cmd              = `C:\windows\system32\cmd.exe`
		notFound         = "The system cannot find the file specified."
		invalidDirectory = "The directory name is invalid."
	)
	for _, row := range []struct {
		name string
		c    Config
		env  []string
		argv []string // without the loader
		dir  string
		err  string
	}{
		{name: "name in system32", c: Config{Args: []string{"ping", "x"}},
			argv: []string{`C:\windows\system32\ping.exe`, "x"}},
		{name: "other case and slashes", c: Config{Args: []string{"c:/APP/server"}},
			argv: []string{`C:\App\Server.EXE`}},
		{name: "path without drive", c: Config{Args: []string{`\app\server.exe`}}, argv: []string{`C:\App\Server.EXE`}},
		{name: "relative to the directory", c: Config{Args: []string{`.\server`}, Dir: `c:\app`},
			argv: []string{`C:\App\Server.EXE`}, dir: "App"},
		{name: "in Path", c: Config{Args: []string{"server"}}, env: []string{`MULLION_ENV_Path=C:\nowhere;"C:\app"`},
			argv: []string{`C:\App\Server.EXE`}},
		{name: "in the directory before Path", c: Config{Args: []string{"server"}, Dir: `C:\App`},
			argv: []string{`C:\App\Server.EXE`}, dir: "App"},
		{name: "batch file", c: Config{Args: []string{`C:\app\start`, "a"}},
			argv: []string{cmd, "/c", `C:\App\start.CMD`, "a"}},
		{name: "no extension", c: Config{Args: []string{`C:\app\tool`}}, argv: []string{`C:\App\tool`}},
		{name: "PATHEXT", c: Config{Args: []string{`C:\app\start`}}, env: []string{"MULLION_ENV_PATHEXT=.EXE;.VBS"},
			err: notFound},
		{name: "command line", c: Config{CommandLine: `"C:\App\server.exe"  -x "y z"`},
			argv: []string{`C:\App\Server.EXE`}},
		{name: "missing", c: Config{Args: []string{"nothing"}}, err: notFound},
		{name: "a directory is not a program", c: Config{Args: []string{`C:\data`}}, err: notFound},
		{name: "a program of Linux", c: Config{Args: []string{`C:\app\linux.exe`}},
			err: "%1 is not a valid Win32 application."},
		{name: "missing directory", c: Config{Args: []string{"ping"}, Dir: `C:\no`},
			err: invalidDirectory},
		{name: "directory on another drive", c: Config{Args: []string{"ping"}, Dir: `D:\`},
			err: invalidDirectory},
		{name: "a file as the directory", c: Config{Args: []string{"ping"}, Dir: `C:\app\server.exe`},
			err: invalidDirectory},
		{name: "below a file", c: Config{Args: []string{"ping"}, Dir: `C:\app\server.exe\x`},
			err: invalidDirectory},
		{name: "a file as the directory on a host",
			c:   Config{Args: []string{"ping"}, Dir: `C:\app\server.exe`, Host: true},
			err: "failed to start host process: failed to create process: The directory name is invalid."},
		{name: "below a file on a host", c: Config{Args: []string{"ping"}, Dir: `C:\app\server.exe\x`, Host: true},
			err: `mkdir C:\app\server.exe\x: The system cannot find the path specified.`},
		{name: "missing in exec of a HostProcess container",
			c:    Config{Args: []string{"nothing"}, Host: true, Exec: true, StatusName: "exec-1"},
			argv: []string{cmd, "/c", "nothing"}},
		{name: "missing in mullion exec", c: Config{Args: []string{"nothing"}, Host: true, Exec: true}, err: notFound},
		{name: "another drive", c: Config{Args: []string{`D:\x.exe`}}, err: notFound},
		{name: "above the root", c: Config{Args: []string{`C:\..\..\app\server.exe`}},
			argv: []string{`C:\App\Server.EXE`}},
		{name: "nothing", err: "no program given"},
	} {
		row.c.Root, row.c.Loader = root, "/loader"
		p, err := makePlan(row.c, row.env)
		if row.err != "" {
			if err == nil || err.Error() != row.err {
				t.Errorf("%s: error %v, want %q", row.name, err, row.err)
			}
			continue
		}
		if err != nil || !slices.Equal(p.argv, append([]string{"/loader"}, row.argv...)) ||
			p.dir != filepath.Join(root, row.dir) {
			t.Errorf("%s: %v, argv %q, dir %s", row.name, err, p.argv, p.dir)
		}
		quoted := row.c.CommandLine == "" && !isBatch(p.argv[1]) && p.argv[1] != cmd
		if line := cmdline.Join(row.c.Args); quoted && !slices.Contains(p.env, commandLineVariable+"="+line) {
			t.Errorf("%s: environment %q, want the command line %s", row.name, p.env, line)
		}
		if row.c.CommandLine != "" && !slices.Contains(p.env, commandLineVariable+"="+row.c.CommandLine) {
			t.Errorf("%s: environment %q", row.name, p.env)
		}
	}
}

// FuzzResolve: no name leads out of the root.
func FuzzResolve(f *testing.F) {
	for _, s := range []string{`C:\a\b`, `..\..\etc\passwd`, `\\?\C:\..\x`, `\??\C:/../..`, "C:", `a\..\..\..\b`} {
		f.Add(s)
	}
	outer := f.TempDir()
	root := filepath.Join(outer, "root")
	if err := os.MkdirAll(filepath.Join(root, "a", "b"), 0o755); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := resolve(root, name)
		if err == nil && got != root && !strings.HasPrefix(got, root+"/") {
			t.Errorf("%q leads to %s", name, got)
		}
	})
}

func TestStatus(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadStatus(filepath.Join(dir, "main")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	want := Status{ExitCode: 0xC000013A, Error: "why"}
	if err := want.write(dir, "main"); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadStatus(filepath.Join(dir, "main")); err != nil || got != want {
		t.Errorf("%+v %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadStatus(filepath.Join(dir, "bad")); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("bad: %v", err)
	}
	if err := os.Symlink("main", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "pipe", "."} {
		if s, err := ReadStatus(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestUnixStatus(t *testing.T) {
	for code, want := range map[uint32]int{0: 0, 1: 1, 255: 255, 256: 255, 0xC000013A: 0x3a, 0xFFFFFF00: 255} {
		if got := unixStatus(code); got != want {
			t.Errorf("%#x: %d, want %d", code, got, want)
		}
	}
}

func TestIsProgram(t *testing.T) {
	for cmdline, want := range map[string]bool{
		"C:\\probe.exe\x00wait\x00":                 true,
		"C:\\windows\\system32\\cmd.exe\x00/c\x00":  true,
		"C:\\windows\\system32\\services.exe\x00":   false,
		"/usr/lib/wine/wineserver\x00":              false,
		"/usr/lib/mullion/init\x00-exec\x00--\x00":  false,
		"C:\\windows\\system32\\winedevice.exe\x00": false,
		"": false,
		"C:\\Windows\\System32\\conhost.exe\x00\x00": false,
	} {
		if got := isProgram([]byte(cmdline)); got != want {
			t.Errorf("%q: %v", cmdline, got)
		}
	}
}
