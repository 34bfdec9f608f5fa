// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
	"github.com/mullion-k8s/mullion/internal/supervise"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestMain lets the test binary be each of the processes of a host.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("JAIL") != "":
		jailed()
	case os.Getenv("HOST") != "":
		c, err := Load(os.Getenv("HOST"))
		if err == nil {
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
			err = Run(ctx, c, slog.New(slog.NewTextHandler(os.Stderr, nil)))
			stop()
		}
		finish(err)
	case len(os.Args) > 1 && os.Args[1] == "init":
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err := Init(ctx, os.Args[2:])
		stop()
		finish(err)
	default:
		os.Exit(m.Run())
	}
}

func finish(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// testHost is a real host below a test's directory, in a cluster whose API server
// does not exist: it boots, and its agent waits.
type testHost struct {
	t      *testing.T
	cfg    Config
	file   string
	fabric *fabric.Fabric
}

func newHost(t *testing.T) *testHost {
	t.Helper()
	dir := t.TempDir()
	id := mathrand.IntN(1 << 20)
	h := &testHost{t: t, cfg: testConfig(dir), file: filepath.Join(dir, "config.json")}
	h.cfg.Cluster = fmt.Sprintf("t%05x", id)
	h.cfg.Bin, h.cfg.Cache = testenv.Bin(), testenv.Cache(t)
	cable := netlab.FabricConfig(h.cfg.Cluster, 50+id%20)
	cable.Dir = filepath.Join(dir, "netns")
	var err error
	if h.fabric, err = fabric.New(cable); err != nil {
		t.Fatal(err)
	}
	plan := h.fabric.Plan()
	h.cfg.Fabric, h.cfg.Gateway = plan.Namespace, plan.Router.Addr()
	h.cfg.Address, h.cfg.PodCIDR, h.cfg.ServiceCIDR = netlab.HostAddress(plan, 1), plan.PodNet, plan.ServiceNet
	if err := h.fabric.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.fabric.Delete(context.Background()); err != nil {
			t.Error(err)
		}
	})
	doc, err := json.Marshal(h.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{h.file: doc, h.cfg.CAFile: testenv.NewAuthority(t).PEM} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// start starts the parent.
func (h *testHost) start() *exec.Cmd {
	h.t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "HOST="+h.file)
	log, err := os.Create(filepath.Join(filepath.Dir(h.file), "parent.log"))
	if err != nil {
		h.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	return cmd
}

// wait waits until the parent's status fulfils a condition.
func (h *testHost) wait(cmd *exec.Cmd, what string, ok func(host.Status) bool) {
	h.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if s, err := host.ReadStatus(h.cfg.Status); err == nil && s.PID == cmd.Process.Pid && ok(s) {
			return
		}
	}
	log, err := os.ReadFile(filepath.Join(filepath.Dir(h.file), "parent.log"))
	h.t.Fatalf("%s: not in time; the parent said (%v):\n%s", what, err, log)
}

// runWindowsTests runs a package's tests, built for Windows, inside of the
// host: the same tests that run on Linux, and those for Windows alone.
func (h *testHost) runWindowsTests(t *testing.T, pkg string) {
	t.Helper()
	testenv.Compiles(t, "internal/agent", "internal/winsys")
	s, err := host.ReadStatus(h.cfg.Status)
	if err != nil {
		t.Fatal(err)
	}
	root := fmt.Sprintf("/proc/%d/root", s.InitPID)
	dir := filepath.Join(root, onDisk(`C:\test`), filepath.Base(pkg))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "test", "-c", "-o", filepath.Join(dir, "x.exe"), ".")
	build.Dir = testenv.Repo(pkg)
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if golden := testenv.Repo(pkg, "testdata"); os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS(golden)) != nil {
		t.Logf("%s has no testdata", pkg)
	}
	used, err := durable.ReadStatus[cacheUse](useFile(h.cfg.Dir))
	if err != nil {
		t.Fatal(err)
	}
	wine := wineHost(boot{Runtime: used.Names[0]})
	args := append([]string{"--target", fmt.Sprint(s.InitPID), "--mount", "--uts", "--ipc", "--net", "--pid", "--root",
		"--wd=" + dir},
		wine.Argv("x.exe", "-test.v")...)
	run := exec.Command("nsenter", args...)
	run.Env = wine.Env()
	out, err := run.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\nPASS") || strings.Contains(string(out), "--- SKIP") {
		t.Errorf("%v; a test that skips counts as one that fails\n%s", err, out)
	}
}

// clean checks that nothing of the host is on the machine.
func (h *testHost) clean() {
	h.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left := h.processes()
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("processes are left: %q", left)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), h.cfg.Dir) {
		h.t.Errorf("mounts of the host are left on the machine: %v", err)
	}
	// The kernel frees a loop device a moment after its last mount.
	testenv.Until(h.t, "the host's disks are free", func() bool {
		files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
		if err != nil {
			h.t.Fatal(err)
		}
		return !slices.ContainsFunc(files, func(f string) bool {
			name, _ := os.ReadFile(f) // an error means that the device has just been freed
			return strings.HasPrefix(string(name), h.cfg.Dir)
		})
	})
}

// processes lists those in the host's cgroup.
func (h *testHost) processes() []string {
	var left []string
	lists, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, l := range lists {
		// An error means that the process has ended, which is wanted.
		content, _ := os.ReadFile(l)
		if strings.Contains(string(content), "/mullion/"+h.cfg.Cluster+"/") {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(l), "comm"))
			left = append(left, strings.TrimSpace(string(name)))
		}
	}
	return left
}

// inheritNothing checks that the Windows programs have no descriptor of a network
// namespace: process 1 has that of the machine.
func (h *testHost) inheritNothing() {
	h.t.Helper()
	looked := 0
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, l := range links {
		dir := filepath.Dir(filepath.Dir(l))
		// An error means that the process has ended.
		group, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		argv, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if !strings.Contains(string(group), "/mullion/"+h.cfg.Cluster+"/") || !strings.Contains(string(argv), "wine") {
			continue
		}
		looked++
		if target, _ := os.Readlink(l); strings.HasPrefix(target, "net:") {
			h.t.Errorf("%q has the descriptor %s of %s", argv, filepath.Base(l), target)
		}
	}
	if looked == 0 {
		h.t.Error("no Windows program was found")
	}
}

// cannotReach checks that no mount of a process of the host contains a directory of the machine, here the one with the
// supervisor's socket.
func (h *testHost) cannotReach(dir string) {
	h.t.Helper()
	type mount struct{ device, root, point string }
	mounts := func(process string) (all []mount) {
		content, _ := os.ReadFile(filepath.Join(process, "mountinfo")) // an error means that it has ended
		for line := range strings.Lines(string(content)) {
			if f := strings.Fields(line); len(f) > 4 { // proc_pid_mountinfo(5)
				all = append(all, mount{f[2], f[3], f[4]})
			}
		}
		return all
	}
	under := func(dir, parent string) (rest string, ok bool) {
		rest, ok = strings.CutPrefix(dir+"/", strings.TrimSuffix(parent, "/")+"/")
		return rest, ok
	}
	var own mount // the one that has the directory
	for _, m := range mounts("/proc/self") {
		if _, ok := under(dir, m.point); ok && len(m.point) >= len(own.point) {
			own = m
		}
	}
	rest, _ := under(dir, own.point)
	within := filepath.Join(own.root, rest)
	looked := 0
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, g := range groups {
		content, _ := os.ReadFile(g) // an error means that the process has ended
		if !strings.Contains(string(content), "/mullion/"+h.cfg.Cluster+"/") {
			continue
		}
		for _, m := range mounts(filepath.Dir(g)) {
			looked++
			if _, ok := under(within, m.root); ok && m.device == own.device {
				h.t.Errorf("%s: the mount at %s contains %s", filepath.Dir(g), m.point, dir)
			}
		}
	}
	if looked == 0 {
		h.t.Error("no mount of the host was found")
	}
}

// kill kills the first process of the host that has an argument which ends so.
func (h *testHost) kill(suffix string) {
	h.t.Helper()
	lists, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, l := range lists {
		content, _ := os.ReadFile(l)
		args, _ := os.ReadFile(filepath.Join(filepath.Dir(l), "cmdline"))
		if !strings.Contains(string(content), "/mullion/"+h.cfg.Cluster+"/") {
			continue
		}
		for arg := range strings.SplitSeq(string(args), "\x00") {
			if !strings.HasSuffix(arg, suffix) {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(l)))
			if err != nil {
				h.t.Fatal(err)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				h.t.Fatal(err)
			}
			return
		}
	}
	h.t.Fatalf("no process %q", suffix)
}

func allReady(names ...string) func(host.Status) bool {
	return func(s host.Status) bool {
		n := 0
		for _, c := range s.Components {
			for _, name := range names {
				if c.Name == name && c.State == "ready" {
					n++
				}
			}
		}
		return n == len(names)
	}
}

// TestBoot boots a host, kills its parent with -9 at random moments, boots it
// again each time, and shuts it down in the end. Nothing may be left of it at
// any time that the machine can see.
func TestBoot(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Nft, testenv.Wine, testenv.Runc, testenv.Built)
	h := newHost(t)
	var supervisor supervise.Socket[int]
	closeSocket, err := supervisor.Open(filepath.Dir(h.cfg.Status), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer closeSocket()
	cmd := h.start()
	// By its reports alone: there is no second look.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ready := func(s host.Status) bool { return allReady("serve", "wine", "agent")(s) && len(s.Agent) > 0 }
	if err := supervise.Await(ctx, &supervisor.Reported, 1000*time.Hour, func() error {
		s, err := host.ReadStatus(h.cfg.Status)
		if err == nil && !ready(s) {
			err = fmt.Errorf("status %+v", s)
		}
		return err
	}); err != nil {
		t.Errorf("first boot, by reports: %v", err)
	}
	h.wait(cmd, "first boot", ready)
	h.inheritNothing()
	h.cannotReach(filepath.Dir(h.cfg.Status))
	for _, pkg := range []string{"internal/winsys/scm", "internal/winsys/acl", "internal/agent",
		"internal/agent/logfile", "internal/agent/wrap"} {
		t.Run(pkg, func(t *testing.T) { h.runWindowsTests(t, pkg) })
	}
	for _, victim := range []struct{ argument, component string }{
		{"wineserver", "wine"}, {"serve", "serve"}, {`mullion.exe`, "agent"},
	} {
		h.kill(victim.argument)
		h.wait(cmd, "recovery of "+victim.component, func(s host.Status) bool {
			for _, c := range s.Components {
				if c.Name == victim.component && c.Restarts == 0 {
					return false
				}
			}
			return allReady("serve", "wine", "agent")(s)
		})
	}
	second := h.start()
	if err := second.Wait(); err == nil {
		t.Error("a second parent took the same host")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := mathrand.New(mathrand.NewPCG(seed, 0))
	const kills = 12
	for i := range kills {
		if i > 0 {
			cmd = h.start()
		}
		// A boot takes about a second.
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // "signal: killed"
		h.clean()
	}
	if err := host.Clear(t.Context(), h.cfg.Cluster); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob("/sys/fs/cgroup/*/mullion/" + h.cfg.Cluster); err != nil || len(left) > 0 {
		t.Errorf("cgroups are left by Clear: %q, %v", left, err)
	}
	cmd = h.start()
	h.wait(cmd, "boot after kills", allReady("serve", "wine", "agent"))
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Wait(); err != nil {
		t.Errorf("orderly shutdown: %v", err)
	}
	t.Logf("shutdown took %s", time.Since(began).Round(time.Millisecond))
	h.clean()
	if left, err := filepath.Glob("/sys/fs/cgroup/*/mullion/" + h.cfg.Cluster); err != nil || len(left) > 0 {
		t.Errorf("cgroups are left: %q, %v", left, err)
	}
	if s, err := host.ReadStatus(h.cfg.Status); err != nil || s.Phase != host.Stopped {
		t.Errorf("status %+v, %v", s, err)
	}
}
