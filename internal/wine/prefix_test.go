// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/wine"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

func TestMain(m *testing.M) {
	testenv.EnterWine()
	m.Run()
}

// testRuntime opens the runtime of this machine.
func testRuntime(t testing.TB) *wine.Runtime {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Wine, testenv.MinGW)
	testenv.Compiles(t, "native", "internal/wine/testdata")
	if out, err := exec.Command("make", "-C", testenv.Repo("native")).CombinedOutput(); err != nil {
		t.Fatalf("make native: %v\n%s", err, out)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	rt, err := wine.OpenRuntime(t.Context(), testenv.Cache(t), testenv.Bin(), log)
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

func parseBuild(t testing.TB, name string) winver.Build {
	t.Helper()
	b, err := winver.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// programs holds the programs that the tests run, compiled once for the package.
var programs = struct {
	sync.Mutex
	built map[string]string
}{built: map[string]string{}}

// program returns the path of a compiled test program.
func program(t testing.TB, name string, build func(out string) *exec.Cmd) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	if p := programs.built[name]; p != "" {
		return p
	}
	out := testenv.Bin(".cache", "wine-test", name)
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		t.Fatal(err)
	}
	if msg, err := build(out).CombinedOutput(); err != nil {
		t.Fatalf("compile %s: %v\n%s", name, err, msg)
	}
	programs.built[name] = out
	return out
}

func goProgram(t testing.TB, name string) string {
	t.Helper()
	return program(t, name+".exe", func(out string) *exec.Cmd {
		cmd := exec.Command("go", "build", "-trimpath", "-o", out, "./testdata/"+name)
		cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
		return cmd
	})
}

func probe(t testing.TB) string {
	t.Helper()
	return goProgram(t, "probe")
}

func rawProgram(t testing.TB) string {
	t.Helper()
	return program(t, "raw.exe", func(out string) *exec.Cmd {
		return exec.Command("x86_64-w64-mingw32-gcc", "-O1", "-o", out, "testdata/raw/raw.c")
	})
}

// newHost returns a host with a prefix of its own: a copy of the template, made
// of hard links but for the registry.
func newHost(t testing.TB, build string) wine.Host {
	t.Helper()
	rt := testRuntime(t)
	template, err := rt.HostPrefix(t.Context(), parseBuild(t, build))
	if err != nil {
		t.Fatal(err)
	}
	h := wine.Host{Runtime: rt.Dir, Prefix: filepath.Join(t.TempDir(), "prefix")}
	if out, err := exec.Command("cp", "-al", template, h.Prefix).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"system.reg", "user.reg", "userdef.reg"} {
		if err := os.Remove(filepath.Join(h.Prefix, name)); err != nil {
			t.Fatal(err)
		}
		copyTo(t, filepath.Join(template, name), filepath.Join(h.Prefix, name))
	}
	copyTo(t, probe(t), filepath.Join(h.Prefix, "drive_c", "probe.exe"))
	t.Cleanup(func() {
		server := exec.Command(filepath.Join(h.Runtime, "usr/lib/wine/wineserver"), "-k")
		server.Env = h.Env()
		_ = server.Run() // fails where no server runs any more
	})
	return h
}

// runIn runs a program in the host and returns its output.
func runIn(t testing.TB, h wine.Host, exe string, args ...string) (string, error) {
	t.Helper()
	argv := h.Argv(exe, args...)
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = h.Env(), filepath.Join(h.Prefix, "drive_c")
	out, err := testenv.CombinedOutput(t, cmd)
	return string(out), err
}

// TestWindowsBehaviour runs the checks of testdata/probe in a host.
func TestWindowsBehaviour(t *testing.T) {
	h := newHost(t, "2019")
	for _, check := range []string{
		"links", "removeall", "messages", "unix", "unixfiles", "udp", "services", "stacks", "queue",
	} {
		t.Run(check, func(t *testing.T) {
			if out, err := runIn(t, h, `C:\probe.exe`, check); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestAtomicWriter needs `make build` only so that compiling the kubelet's
// package is not a matter of minutes.
func TestAtomicWriter(t *testing.T) {
	testenv.Need(t, testenv.Built)
	h := newHost(t, "2019")
	copyTo(t, goProgram(t, "atomicwriter"), filepath.Join(h.Prefix, "drive_c", "atomicwriter.exe"))
	if out, err := runIn(t, h, `C:\atomicwriter.exe`); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestUpstreamPrograms starts each of upstream's programs far enough to know
// that Wine can load it.
func TestUpstreamPrograms(t *testing.T) {
	testenv.Need(t, testenv.Built)
	h := newHost(t, "2022")
	for _, row := range []struct{ exe, arg, want string }{
		{"kubelet.exe", "--version", "Kubernetes v"},
		{"kube-proxy.exe", "--version", "Kubernetes v"},
	} {
		if err := os.Link(testenv.Bin("windows", row.exe), filepath.Join(h.Prefix, "drive_c", row.exe)); err != nil {
			copyTo(t, testenv.Bin("windows", row.exe), filepath.Join(h.Prefix, "drive_c", row.exe))
		}
		if out, err := runIn(t, h, `C:\`+row.exe, row.arg); err != nil || !strings.Contains(out, row.want) {
			t.Errorf("%s: %v: %s", row.exe, err, out)
		}
	}
	copyTo(t, testenv.Bin("windows", "win-bridge.exe"), filepath.Join(h.Prefix, "drive_c", "win-bridge.exe"))
	argv := h.Argv(`C:\win-bridge.exe`)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = append(h.Env(), "CNI_COMMAND=VERSION"), filepath.Join(h.Prefix, "drive_c")
	if out, err := testenv.CombinedOutput(t, cmd); err != nil || !strings.Contains(string(out), "supportedVersions") {
		t.Errorf("win-bridge.exe: %v: %s", err, out)
	}
}

func TestVersions(t *testing.T) {
	for _, name := range []string{"2016", "1709", "1803", "2019", "2022", "2025"} {
		t.Run(name, func(t *testing.T) {
			b := parseBuild(t, name)
			h := newHost(t, name)
			out, err := runIn(t, h, `C:\probe.exe`, "version")
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range []string{
				fmt.Sprintf("RtlGetVersion 10.0.%d type 3", b.Number),
				fmt.Sprintf("RtlGetNtVersionNumbers 10.0.%d", b.Number),
				"ProductName " + b.ProductName,
				fmt.Sprintf("CurrentBuildNumber %d", b.Number),
				fmt.Sprintf("UBR %d", b.UBR),
				"CurrentMajorVersionNumber 10",
			} {
				if !strings.Contains(out, want+"\n") {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			if out, err := runIn(t, h, "cmd", "/c", "ver"); err != nil ||
				!strings.Contains(out, fmt.Sprintf("10.0.%d", b.Number)) {
				t.Errorf("ver: %v: %s", err, out)
			}
		})
	}
}

// TestTemplateHoldsNothingOfTheMachine: wineboot links drives, serial ports
// and folders of the home directory into a prefix.
func TestTemplateHoldsNothingOfTheMachine(t *testing.T) {
	testenv.Need(t, testenv.Root)
	rt := testRuntime(t)
	b := parseBuild(t, "2019")
	prefix, err := rt.HostPrefix(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	root, err := rt.ContainerRoot(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]string{
		filepath.Join(prefix, "dosdevices", "c:"):                 "../drive_c",
		filepath.Join(root, "linux", ".wine", "dosdevices", "c:"): "../drive_c",
	}
	for _, dir := range []string{prefix, root} {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.Type()&fs.ModeSymlink == 0 {
				return err
			}
			target, err := os.Readlink(path)
			if allowed[path] != target {
				t.Errorf("%s -> %s", path, target)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"z:", "com1", "d:"} {
		for _, dir := range []string{
			filepath.Join(prefix, "dosdevices"), filepath.Join(root, "linux", ".wine", "dosdevices"),
		} {
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				t.Errorf("%s has %s", dir, name)
			}
		}
	}
}

// TestHostPrefixCancelled: a first start that is interrupted leaves no process and
// no half-made directory, whichever of Wine's programs has just started.
// TestOtherWine: winemend.dll recognizes functions by their code, and a Wine with other code is refused.
func TestOtherWine(t *testing.T) {
	testRuntime(t) // builds native/
	bin := t.TempDir()
	if err := os.Symlink(testenv.Bin("native"), filepath.Join(bin, "native")); err != nil {
		t.Fatal(err)
	}
	const ntdll = "usr/lib/x86_64-linux-gnu/wine/x86_64-windows/ntdll.dll"
	from, to := testenv.Bin("wine"), filepath.Join(bin, "wine")
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || rel == ntdll {
			return err
		}
		if e.IsDir() {
			return os.Mkdir(filepath.Join(to, rel), 0o755)
		}
		return os.Symlink(path, filepath.Join(to, rel))
	})
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(filepath.Join(from, ntdll))
	if err != nil {
		t.Fatal(err)
	}
	// Each system call begins with mov r10, rcx and mov eax, NUMBER. There are two ways to write the first.
	code = bytes.ReplaceAll(code, []byte{0x4c, 0x8b, 0xd1, 0xb8}, []byte{0x49, 0x89, 0xca, 0xb8})
	if err := os.WriteFile(filepath.Join(to, ntdll), code, 0o644); err != nil {
		t.Fatal(err)
	}
	rt, err := wine.OpenRuntime(t.Context(), t.TempDir(), bin, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = rt.HostPrefix(t.Context(), parseBuild(t, "2019"))
	want := regexp.MustCompile("check Wine: .* cannot replace [1-9][0-9]* functions of this Wine, .*run `make build`")
	if _, unfit := errors.AsType[*wine.UnfitError](err); !unfit || !want.MatchString(err.Error()) {
		t.Errorf("error %v", err)
	}
}

func TestHostPrefixCancelled(t *testing.T) {
	testRuntime(t) // for what must be installed
	cache := testenv.Bin(".cache", "wine-cancel-"+fmt.Sprint(os.Getpid()))
	t.Cleanup(func() {
		if err := os.RemoveAll(cache); err != nil {
			t.Error(err)
		}
	})
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	rt, err := wine.OpenRuntime(t.Context(), cache, testenv.Bin(), log)
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"wineserver", "wineboot.exe", "services.exe", "rundll32.exe"} {
		t.Run(program, func(t *testing.T) { testCancelled(t, rt, cache, program) })
	}
}

// testCancelled fills a prefix and interrupts that as soon as the program runs.
func testCancelled(t *testing.T, rt *wine.Runtime, cache, program string) {
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		runs := func(cmdline string) bool { return strings.Contains(cmdline, program) }
		for ctx.Err() == nil && !slices.ContainsFunc(runningFrom(rt.Dir), runs) {
			time.Sleep(time.Millisecond)
		}
	}()
	if dir, err := rt.HostPrefix(ctx, parseBuild(t, "2019")); !errors.Is(err, context.Canceled) {
		t.Fatalf("filled %s although it was cancelled: %v", dir, err)
	}
	entries, err := os.ReadDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && filepath.Join(cache, e.Name()) != rt.Dir {
			t.Errorf("left %s", e.Name())
		}
	}
	for _, process := range runningFrom(rt.Dir) {
		t.Errorf("left a process: %q", process)
	}
}

// runningFrom returns the command lines of the processes whose program is below dir.
func runningFrom(dir string) (found []string) {
	exes, _ := filepath.Glob("/proc/[0-9]*/exe") // the pattern is valid
	for _, exe := range exes {
		if target, err := os.Readlink(exe); err == nil && strings.HasPrefix(target, dir) {
			cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(exe), "cmdline"))
			found = append(found, string(cmdline))
		}
	}
	return found
}
