// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/wine"
	"github.com/mullion-k8s/mullion/internal/wine/launch"
)

// container is a runc container as the CRI server makes one: the oci package's
// spec, an overlay, a status directory.
type container struct {
	t      testing.TB
	id     string
	bundle string
	mounts []oci.Mount // beside those that each has
	out    output
}

// output collects what a process prints while a test looks at it.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// newContainer prepares the root directory with probe.exe and raw.exe in C:\.
func newContainer(t testing.TB, build string) *container {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Runc)
	rt := testRuntime(t)
	drive, err := rt.ContainerLayers(t.Context(), parseBuild(t, build))
	if err != nil {
		t.Fatal(err)
	}
	account, err := rt.AccountLayer(t.Context(), wine.Accounts()[0])
	if err != nil {
		t.Fatal(err)
	}
	linux, err := rt.LinuxLayers(t.Context(), parseBuild(t, build), wine.Accounts()[0])
	if err != nil {
		t.Fatal(err)
	}
	c := &container{t: t, bundle: t.TempDir()}
	c.id = "mln-wine-" + filepath.Base(filepath.Dir(c.bundle)) + "-" + filepath.Base(c.bundle)
	for _, d := range []string{"upper", "status"} {
		if err := os.Mkdir(c.path(d), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(c.path(d), wine.ContainerUID, wine.ContainerGID); err != nil {
			t.Fatal(err)
		}
	}
	for name, src := range map[string]string{"probe.exe": probe(t), "raw.exe": rawProgram(t)} {
		copyTo(t, src, c.path("upper", name))
	}
	c.mount("drive", append(drive, account), "upper")
	c.mount("rootfs", linux, "linux-upper")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = exec.CommandContext(ctx, "runc", "delete", "--force", c.id).Run() // usually gone already
	})
	return c
}

// mount stacks layers, lowest first, and a writable one.
func (c *container) mount(at string, layers []string, upper string) {
	c.t.Helper()
	for _, d := range []string{at, upper, at + "-work"} {
		if err := os.MkdirAll(c.path(d), 0o755); err != nil {
			c.t.Fatal(err)
		}
	}
	slices.Reverse(layers)
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s",
		strings.Join(layers, ":"), c.path(upper), c.path(at+"-work"))
	if err := unix.Mount("overlay", c.path(at), "overlay", 0, options); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := unix.Unmount(c.path(at), 0); err != nil {
			c.t.Errorf("unmount: %v", err)
		}
	})
}

func (c *container) path(elem ...string) string {
	return filepath.Join(append([]string{c.bundle}, elem...)...)
}

// start runs the main process and returns at once.
func (c *container) start(p wine.Process) *exec.Cmd {
	c.t.Helper()
	p.Status = "main"
	spec := oci.Spec(oci.Config{
		ID: c.id, Hostname: "pod-a", Rootfs: c.path("rootfs"), Process: process(p), Cgroup: "/" + c.id,
		Mounts: append([]oci.Mount{
			{Source: c.path("status"), Destination: wine.StatusDir},
			{Source: c.path("drive"), Destination: wine.ContainerDrive},
		}, c.mounts...),
	})
	data, err := json.Marshal(spec)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(c.path("config.json"), data, 0o600); err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command("runc", "run", "--bundle", c.bundle, c.id)
	cmd.Stdout, cmd.Stderr = &c.out, &c.out
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	return cmd
}

func process(p wine.Process) oci.Process {
	argv, env, cwd := wine.ContainerProcess(p)
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // zero: the package's default
	return oci.Process{
		Args: argv, Env: env, Cwd: cwd, UID: wine.ContainerUID, GID: wine.ContainerGID,
		OpenFiles: min(limit.Max, oci.DefaultOpenFiles),
	}
}

// run runs the main process to its end.
func (c *container) run(p wine.Process) (output string, s launch.Status) {
	c.t.Helper()
	err := c.start(p).Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	s, err = launch.ReadStatus(c.path("status", "main"))
	if err != nil {
		c.t.Fatalf("%v; output: %s", err, c.out.String())
	}
	return c.out.String(), s
}

func (c *container) exec(name string, p wine.Process) (output string, s launch.Status) {
	c.t.Helper()
	p.Exec, p.Status = true, name
	data, err := json.Marshal(oci.ExecProcess(process(p)))
	if err != nil {
		c.t.Fatal(err)
	}
	spec := c.path(name + ".json")
	if err := os.WriteFile(spec, data, 0o600); err != nil {
		c.t.Fatal(err)
	}
	out, err := exec.Command("runc", "exec", "--process", spec, c.id).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	if s, err = launch.ReadStatus(c.path("status", name)); err != nil {
		c.t.Fatalf("%v; output: %s", err, out)
	}
	return string(out), s
}

func TestContainerExitCodes(t *testing.T) {
	for _, code := range []uint32{0, 7, 255, 256, 0xC000013A, 0xFFFFFFFF} {
		c := newContainer(t, "2019")
		out, s := c.run(wine.Process{Args: []string{`C:\probe.exe`, "exit", fmt.Sprint(code)}})
		if s.ExitCode != code || s.Error != "" {
			t.Errorf("exit %d: %+v; output: %s", code, s, out)
		}
	}
}

// TestContainerQueue: threads have message queues in a container too, and no
// explorer.exe starts for them.
func TestContainerQueue(t *testing.T) {
	c := newContainer(t, "2019")
	if out, s := c.run(wine.Process{Args: []string{`C:\probe.exe`, "queue"}}); s.ExitCode != 0 {
		t.Errorf("%+v; output: %s", s, out)
	}
	if _, err := os.Stat(c.path("drive", "windows", "system32", "explorer.exe")); err == nil {
		t.Error("the container has an explorer.exe")
	}
}

// TestContainerConsole: a program can make a console in a container, and set its code pages.
func TestContainerConsole(t *testing.T) {
	c := newContainer(t, "2019")
	if out, s := c.run(wine.Process{Args: []string{`C:\probe.exe`, "console"}}); s.ExitCode != 0 {
		t.Errorf("%+v; output: %s", s, out)
	}
}

// TestContainerPairs: a function that winemend.dll replaces does the same in each of its spellings.
func TestContainerPairs(t *testing.T) {
	c := newContainer(t, "2019")
	if out, s := c.run(wine.Process{Args: []string{`C:\probe.exe`, "pairs"}}); s.ExitCode != 0 {
		t.Errorf("%+v; output: %s", s, out)
	}
}

// TestContainerDrive: programs see drive C and nothing of Linux.
func TestContainerDrive(t *testing.T) {
	c := newContainer(t, "2019")
	out, s := c.run(wine.Process{Args: []string{`C:\probe.exe`, "drive", "probe.exe", "raw.exe"}})
	if s.ExitCode != 0 {
		t.Errorf("%+v\n%s", s, out)
	}
}

// TestContainerSecurity: files have the security descriptors that they have on
// Windows, and keep those that programs set.
func TestContainerSecurity(t *testing.T) {
	c := newContainer(t, "2022")
	volume := c.path("volume")
	if err := os.Mkdir(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(volume, "token"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.mounts = append(c.mounts, oci.Mount{Source: volume, Destination: wine.ContainerDrive + "/volume", ReadOnly: true})
	if err := os.Mkdir(c.path("upper", "volume"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, s := c.run(wine.Process{Args: []string{`C:\probe.exe`, "security", `C:\volume`, `C:\volume\token`}})
	if s.ExitCode != 0 {
		t.Errorf("%+v\n%s", s, out)
	}
	for name, want := range map[string]os.FileMode{"closed": 0, "readable": 4, "writable": 6} {
		info, err := os.Stat(c.path("drive", name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode() & 0o606; got != 0o600|want {
			t.Errorf("%s has the mode %o, want %o", name, got, 0o600|want)
		}
	}
}

func TestContainerProgramLookup(t *testing.T) {
	c := newContainer(t, "2019")
	script := "@echo off\r\necho script %1 in %CD% with %APP%\r\nexit /b 3\r\n"
	for _, d := range []string{"App"} {
		if err := os.Mkdir(c.path("upper", d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(c.path("upper", "App", "Run.CMD"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	// A program of Linux that would work if anything ran it: the runtime's own init.
	copyTo(t, testenv.Bin("native", "init"), c.path("upper", "linux.exe"))
	main := c.start(wine.Process{Args: []string{`C:\probe.exe`, "wait"}})
	c.await()
	for _, row := range []struct {
		name string
		p    wine.Process
		code uint32
		want string
	}{
		{"by name, other case, extension from PATHEXT", wine.Process{Args: []string{"PROBE", "version"}, Dir: `c:\`}, 0,
			"ProductName Windows Server 2019 Datacenter"},
		{"batch file in a directory of Path",
			wine.Process{Args: []string{"run", "arg"}, Env: []string{`Path=c:\app`, "APP=value"}}, 3,
			`script arg in C:\ with value`},
		{"batch file in the working directory", wine.Process{Args: []string{"run.cmd", "x y"}, Dir: `C:\APP`}, 3,
			`script "x y" in C:\App`},
		{"system program", wine.Process{Args: []string{"hostname"}}, 0, "POD-A"},
		{"slashes", wine.Process{Args: []string{"/windows/system32/cmd.exe", "/c", "echo hi"}}, 0, "hi"},
		{"raw command line", wine.Process{CommandLine: `cmd /S /C echo "quoted  text" & exit 9`}, 9, `"quoted  text"`},
		{"first argument as written", wine.Process{Args: []string{"/probe", "arguments", "a b"}}, 0,
			`["/probe" "arguments" "a b"] /probe arguments "a b"`},
		{"a program of Linux", wine.Process{Args: []string{`C:\linux.exe`}}, 126,
			"%1 is not a valid Win32 application."},
		{"missing program", wine.Process{Args: []string{"no-such-program"}}, 127,
			"The system cannot find the file specified."},
		{"missing directory", wine.Process{Args: []string{"hostname"}, Dir: `C:\nowhere`}, 126,
			"The directory name is invalid."},
	} {
		out, s := c.exec("lookup", row.p)
		refused := row.code == 127 || row.code == 126
		if refused != (s.Error != "") || refused && out != "" {
			t.Errorf("%s: error %q, output %q", row.name, s.Error, out)
		}
		if s.ExitCode != row.code || !strings.Contains(out+s.Error, row.want) {
			t.Errorf("%s: code %d, want %d; output %q, want %q", row.name, s.ExitCode, row.code, out, row.want)
		}
	}
	c.stop(main)
}

// await waits until the program says that it waits.
func (c *container) await() {
	const text = "waiting"
	c.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !strings.Contains(c.out.String(), text) {
		if _, err := os.Stat(c.path("status", "main")); err == nil || time.Now().After(deadline) {
			c.t.Fatalf("no %q in the output: %s", text, c.out.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// stop asks the container to end and returns the status of its main process.
func (c *container) stop(main *exec.Cmd) launch.Status {
	c.t.Helper()
	if out, err := exec.Command("runc", "kill", c.id, "TERM").CombinedOutput(); err != nil {
		c.t.Fatalf("%v: %s", err, out)
	}
	_ = main.Wait() // the status file says how it ended
	s, err := launch.ReadStatus(c.path("status", "main"))
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

func TestContainerStop(t *testing.T) {
	c := newContainer(t, "2019")
	main := c.start(wine.Process{Args: []string{`C:\probe.exe`, "wait"}})
	c.await()
	s := c.stop(main)
	// Go turns CTRL_SHUTDOWN_EVENT into SIGTERM, CTRL_C_EVENT into os.Interrupt.
	if s.ExitCode != 7 || !strings.Contains(c.out.String(), "got terminated") {
		t.Errorf("status %+v, output %q", s, c.out.String())
	}
}

// TestContainerStopWithoutHandler: the system ends a program that does not
// care, with STATUS_CONTROL_C_EXIT.
func TestContainerStopWithoutHandler(t *testing.T) {
	c := newContainer(t, "2022")
	main := c.start(wine.Process{Args: []string{`C:\probe.exe`, "sleep"}})
	c.await()
	if s := c.stop(main); s.ExitCode != 0xC000013A {
		t.Errorf("status %+v, output %q", s, c.out.String())
	}
}

// TestContainerStopHandled: a program that takes the event has until its handler returns. HandlerRoutine: "Return TRUE.
// In this case, no other handler functions are called and the system terminates the process."
func TestContainerStopHandled(t *testing.T) {
	c := newContainer(t, "2022")
	main := c.start(wine.Process{Args: []string{`C:\probe.exe`, "returns"}})
	c.await()
	if s := c.stop(main); s.ExitCode != 0xC000013A || !strings.Contains(c.out.String(), "event 6") {
		t.Errorf("status %+v, output %q", s, c.out.String())
	}
}

func TestContainerIsolation(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the machine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for d := filepath.Dir(secret); d != "/"; d = filepath.Dir(d) {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm()&0o001 == 0 {
			_ = os.Chmod(d, 0o755) // so that permissions are not what protects it
		}
	}
	c := newContainer(t, "2019")
	out, s := c.run(wine.Process{Args: []string{`C:\probe.exe`, "escape", secret}})
	if s.ExitCode != 0 || !strings.Contains(out, "tried") {
		t.Errorf("by Windows' calls: %+v\n%s", s, out)
	}
	c = newContainer(t, "2019")
	out, s = c.run(wine.Process{Args: []string{`C:\raw.exe`, secret}})
	if s.ExitCode != 0 || strings.Contains(out, "worked") || !strings.Contains(out, "tried") {
		t.Errorf("by Linux' calls: %+v\n%s", s, out)
	}
}

func copyTo(t testing.TB, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }() // opened for reading
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}
