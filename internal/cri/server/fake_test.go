// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/cri/cni/cnitest"
	"github.com/mullion-k8s/mullion/internal/cri/engine"
	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/mount"
	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/wine"
	"github.com/mullion-k8s/mullion/internal/wine/launch"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// TestMain also plays the program in the containers: the test binary is static,
// and lies at /guest in the image.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[0] == "/guest" {
		os.Exit(guest(os.Args[1:]))
	}
	if os.Args[0] == wine.InitPath {
		fmt.Fprintln(os.Stderr, startLate(os.Args))
		os.Exit(1)
	}
	testenv.EnterWine()
	os.Exit(m.Run())
}

// guest returns a program for the containers of the tests.
func guest(args []string) int {
	switch args[0] {
	case "exit": // a 32-bit exit code, written as the engine's init would
		var code uint32
		_, _ = fmt.Sscan(args[1], &code)
		data, _ := json.Marshal(launch.Status{ExitCode: code})
		_ = os.WriteFile("/run/mullion/"+os.Getenv("TEST_STATUS"), data, 0o644)
		return int(code & 0xff)
	case "echo":
		fmt.Println(strings.Join(args[1:], " "))
		fmt.Fprintln(os.Stderr, "to stderr")
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "sleep":
		c := make(chan os.Signal, 1)
		signal.Notify(c, unix.SIGTERM)
		fmt.Println("started")
		<-c
		return 7
	case "stubborn":
		signal.Ignore(unix.SIGTERM)
		fmt.Println("started")
		time.Sleep(time.Hour)
	case "late": // it handles signals only after a while, as a program that starts on a busy machine
		signal.Ignore(unix.SIGTERM)
		fmt.Println("started")
		time.Sleep(askAgain / 2)
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, unix.SIGTERM)
		<-asked
		return 7
	case "cat":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "read":
		for _, name := range args[1:] {
			data, err := os.ReadFile(name)
			if err != nil {
				fmt.Println("error:", err)
				return 1
			}
			fmt.Printf("%s", data)
		}
	case "write":
		if err := os.WriteFile(args[1], []byte(args[2]), 0o666); err != nil { // as Wine does
			fmt.Println("error:", err)
			return 1
		}
	case "serve":
		l, err := net.Listen("tcp", "127.0.0.1:8080")
		if err != nil {
			return 1
		}
		fmt.Println("started")
		for {
			conn, err := l.Accept()
			if err != nil {
				return 1
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	case "eat", "fork", "fill", "flood", "inotify":
		exhaust(args)
	case "mkdir", "whoami":
		return own(args)
	case "hostname":
		h, _ := os.Hostname()
		fmt.Println(h)
	case "confined":
		return confined()
	}
	return 0
}

// own makes a directory, or tells whose the program and its file are.
func own(args []string) int {
	if args[0] == "mkdir" {
		if err := os.Mkdir(args[1], 0o777); err != nil {
			fmt.Println("error:", err)
			return 1
		}
		return 0
	}
	info, err := os.Stat("/guest")
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println(os.Getuid(), os.Getgid(), info.Sys().(*syscall.Stat_t).Uid)
	return 0
}

// exhaust takes memory, processes, room on a disk or what the user may have without end.
func exhaust(args []string) {
	switch args[0] {
	case "eat": // memory until the end
		var all [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = byte(i)
			}
			all = append(all, b) //nolint:staticcheck // it is only to be held
		}
	case "fork": // processes without end
		// Go's runtime ends a program that cannot start a thread: have some first.
		var some sync.WaitGroup
		for range 20 {
			some.Go(func() {
				goruntime.LockOSThread()
				time.Sleep(50 * time.Millisecond)
				goruntime.UnlockOSThread()
			})
		}
		some.Wait()
		for {
			_ = exec.Command("/proc/self/exe", "stubborn").Start() // it fails at the limit
		}
	case "fill": // a directory without end
		for n := 0; ; n++ {
			if os.WriteFile(filepath.Join(args[1], strconv.Itoa(n)), make([]byte, 1<<20), 0o644) != nil {
				time.Sleep(time.Second)
			}
		}
	case "flood": // output without end
		line := []byte(strings.Repeat("x", 127) + "\n")
		for {
			_, _ = os.Stdout.Write(line) // until it is killed
		}
	case "inotify": // as many instances as the user may have
		n := 0
		for ; n < 1<<16; n++ {
			if _, err := unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
				break
			}
		}
		fmt.Println(n > 10)
		time.Sleep(time.Hour)
	}
}

// confined looks for ways out of a container and says which it found.
func confined() int {
	bad := 0
	find := func(ok bool, what string) {
		if ok {
			fmt.Println("found:", what)
			bad++
		}
	}
	status, _ := os.ReadFile("/proc/self/status")
	find(!strings.Contains(string(status), "CapEff:\t0000000000000000"), "capabilities")
	find(!strings.Contains(string(status), "NoNewPrivs:\t1"), "new privileges")
	find(!strings.Contains(string(status), "Seccomp:\t2"), "no filter of system calls")
	find(os.Getuid() == 0, "root")
	find(unix.Unshare(unix.CLONE_NEWUSER) == nil, "user namespaces")
	find(unix.Mount("none", "/run", "tmpfs", 0, "") == nil, "mount")
	_, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
	find(e != unix.EPERM, "io_uring")
	_, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
	find(err == nil, "vsock")
	for _, name := range []string{"/sys", "/root", "/home", "/proc/kcore", "/dev/kmsg", "/dev/mem", "/etc/shadow",
		"/var/lib"} {
		if info, err := os.Stat(name); err == nil && (name != "/sys") && info.Size() > 0 &&
			info.Mode()&os.ModeDevice == 0 {
			find(true, name)
		}
	}
	entries, _ := os.ReadDir("/proc")
	processes := 0
	for _, e := range entries {
		if e.Name()[0] >= '0' && e.Name()[0] <= '9' {
			processes++
		}
	}
	find(processes > 2, "processes of others")
	return bad
}

// images is an Images with one image, which is the test binary.
type images struct {
	layer string

	mu    sync.Mutex
	list  []*image.Image
	holds map[string]string // owner to image; guarded by mu
}

func (f *images) List() []*image.Image { return f.list }

func (f *images) Get(ref string) (*image.Image, error) {
	for _, i := range f.list {
		if i.ID == ref || slices.Contains(i.RepoTags, ref) {
			return i, nil
		}
	}
	return nil, fmt.Errorf("image %q: %w", ref, image.ErrNotFound)
}

func (f *images) Acquire(ref, owner string) (*image.Image, error) {
	img, err := f.Get(ref)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holds[owner] = img.ID
	return img, nil
}

func (f *images) Release(owner string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.holds, owner)
	return nil
}

func (f *images) Holders(id string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for owner, img := range f.holds {
		if img == id {
			out = append(out, owner)
		}
	}
	return out
}

func (f *images) Pull(_ context.Context, ref string, _ *image.Auth) (*image.Image, error) {
	return f.Get(ref)
}
func (f *images) Remove(context.Context, string) error { return nil }
func (f *images) FsInfo() (image.FsInfo, error) {
	return image.FsInfo{UsedBytes: 10, InodesUsed: 1}, nil
}

// namespaces is a Namespaces whose namespaces are real and hold a loopback
// interface only.
type namespaces struct {
	dir string

	mu         sync.Mutex
	ids        []string            // guarded by mu
	containers map[string][]string // by namespace; guarded by mu
}

func (n *namespaces) CreateNamespace(context.Context) (string, error) {
	id := "6e6e0f6c-0000-0000-0000-" + strings.ToLower(rand.Text())[:12]
	if err := kernel.CreateNamespace(n.NamespacePath(id), nil); err != nil {
		return "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids = append(n.ids, id)
	return id, nil
}

func (n *namespaces) DeleteNamespace(_ context.Context, id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids = slices.DeleteFunc(n.ids, func(i string) bool { return i == id })
	return kernel.DeleteNamespace(n.NamespacePath(id))
}

func (n *namespaces) NamespacePath(id string) string { return filepath.Join(n.dir, id) }

func (n *namespaces) Namespaces() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.ids)
}

func (n *namespaces) AddContainer(_ context.Context, ns, id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.containers[ns] = append(n.containers[ns], id)
	return nil
}
func (n *namespaces) RemoveContainer(context.Context, string, string) error { return nil }
func (n *namespaces) NamespaceStats(context.Context, string) ([]hns.EndpointStats, error) {
	counters := schema.V1EndpointStats{BytesReceived: 11, BytesSent: 22}
	return []hns.EndpointStats{{Name: "ep", V1EndpointStats: counters}}, nil
}

// linuxEngine runs Linux programs.
type linuxEngine struct{ base string }

func (linuxEngine) DefaultUser() string { return "ContainerAdministrator" }
func (e linuxEngine) Layers(context.Context, string, string) (engine.Layers, error) {
	return engine.Layers{Below: []string{e.base}}, nil
}
func (linuxEngine) Drive() string { return "/" }

// WriteMachine does not write: there is no registry.
func (linuxEngine) WriteMachine(*os.Root, engine.Network) error { return nil }

func (linuxEngine) HasUser(user, _ string) bool {
	return slices.Contains([]string{"ContainerAdministrator", "ContainerUser", `NT AUTHORITY\NETWORK SERVICE`}, user)
}

func (linuxEngine) Process(p engine.Program) oci.Process {
	env := append(slices.Clone(p.Env), "TEST_STATUS="+p.Status)
	return oci.Process{Args: p.Args, Env: env, Cwd: "/", UID: 64000, GID: 64000}
}
func (linuxEngine) StatusDir() string     { return "/run/mullion" }
func (linuxEngine) Owner() (uid, gid int) { return 64000, 64000 }
func (e linuxEngine) Started(_ context.Context, _ int, status string) error {
	if s, err := e.Status(status); err == nil && s.Error != "" {
		return errors.New(s.Error)
	}
	return nil
}

func (linuxEngine) Status(file string) (engine.Status, error) {
	s, err := launch.ReadStatus(file)
	return engine.Status(s), err
}

// lab is a server with its clients and surroundings.
type lab struct {
	*Server
	t          testing.TB
	cfg        Config
	plugins    *cnitest.Fake
	images     *images
	namespaces *namespaces
	drive      string

	Runtime runtime.RuntimeServiceClient
	Images  runtime.ImageServiceClient
	stop    func()
}

// testFirstUID begins the user IDs of a lab's pods, outside of those of clusters.
const testFirstUID = 0x68000000

const testImage = "example.test/guest:1"

// newLab starts a server on an empty state. At the end of the test nothing of
// it may be left.
func newLab(t testing.TB) *lab { return newLabWith(t, func(*Config) {}) }

// newLabWith lets the caller put real things in the place of fakes.
func newLabWith(t testing.TB, change func(*Config)) *lab {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Runc, testenv.Static)
	dir := t.TempDir()
	l := &lab{t: t, drive: filepath.Join(dir, "drive_c"), plugins: &cnitest.Fake{}}
	base, layer := filepath.Join(dir, "base"), filepath.Join(dir, "layer")
	for _, d := range []string{
		filepath.Join(l.drive, "Program Files/containerd/cni/conf"),
		filepath.Join(l.drive, "Program Files/containerd/cni/bin"), filepath.Join(l.drive, "var/log/pods"),
		filepath.Join(base, "proc"), filepath.Join(base, "dev"), filepath.Join(base, "etc"),
		filepath.Join(base, "run/mullion"), filepath.Join(base, "windows/System32/drivers/etc"), layer,
		filepath.Join(dir, "netns"),
	} {
		must(t, os.MkdirAll(d, 0o755))
	}
	must(t, os.WriteFile(filepath.Join(l.drive, "Program Files/containerd/cni/bin/win-bridge.exe"), nil, 0o644))
	must(t, os.WriteFile(filepath.Join(l.drive, "Program Files/containerd/cni/conf/10-x.conf"),
		[]byte(`{"cniVersion":"0.3.0","name":"cbr0","type":"win-bridge","capabilities":{"portMappings":true,`+
			`"dns":true}}`), 0o644))
	self, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(layer, "guest"), self, 0o755))
	l.images = &images{layer: layer, holds: map[string]string{}, list: []*image.Image{
		{ID: "sha256:" + strings.Repeat("1", 64), RepoTags: []string{testImage},
			RepoDigests: []string{"example.test/guest@sha256:" + strings.Repeat("2", 64)}, Size: 5,
			Config: v1.Config{Entrypoint: []string{"/guest"}, Cmd: []string{"sleep"},
				Env: []string{"A=image", "B=image"}}, OSVersion: "10.0.17763.1", Layers: []string{layer}},
		{ID: "sha256:" + strings.Repeat("3", 64), RepoTags: []string{"example.test/other-build:1"},
			Config: v1.Config{Entrypoint: []string{"/guest"}}, OSVersion: "10.0.20348.1", Layers: []string{layer}},
	}}
	l.namespaces = &namespaces{dir: filepath.Join(dir, "netns"), containers: map[string][]string{}}
	build, err := winver.Parse("2019")
	must(t, err)
	unique := strings.ToLower(rand.Text())
	l.cfg = Config{
		StateDir:   filepath.Join(dir, "state"),
		RunDir:     filepath.Join(dir, "run"),
		Images:     l.images,
		Namespaces: l.namespaces,
		Plugins:    l.plugins,
		Engine:     linuxEngine{base},
		Drive:      l.drive,
		Cgroup:     "/mullion-test-" + unique,
		Build:      build,
		Handlers:   []string{"example-container-runtime-handler"},
		FirstUID:   testFirstUID,
		Version:    "1.2.3",
		Log:        slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	change(&l.cfg)
	t.Cleanup(func() { l.cleanUp() })
	l.start()
	return l
}

// start opens and serves; the lab's clients reach it.
func (l *lab) start() {
	l.t.Helper()
	s, err := New(l.t.Context(), l.cfg)
	must(l.t, err)
	l.Server = s
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(l.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)))
	must(l.t, err)
	l.Runtime, l.Images = runtime.NewRuntimeServiceClient(conn), runtime.NewImageServiceClient(conn)
	l.stop = sync.OnceFunc(func() {
		_ = conn.Close()
		cancel()
		if err := <-done; err != nil {
			l.t.Errorf("serve: %v", err)
		}
	})
}

// cleanUp removes everything through the server and looks for leftovers.
func (l *lab) cleanUp() {
	if l.Server == nil {
		return
	}
	ctx := context.Background()
	// While it serves, because then it hears of the end of containers at once.
	for _, sb := range l.store.Sandboxes.List() {
		if err := l.dropSandbox(ctx, sb.ID); err != nil {
			l.t.Error(err)
		}
	}
	if l.stop != nil {
		l.stop()
	}
	l.nothingLeft()
	_ = l.hostCgroup().Remove() // nothingLeft has seen that it is empty
}

// hostCgroup returns the cgroup of the lab's host.
func (l *lab) hostCgroup() cgroup.Group {
	hs, err := cgroup.Find()
	must(l.t, err)
	return hs.Group(l.cfg.Cgroup)
}

// nothingLeft fails the test if anything of a pod exists.
func (l *lab) nothingLeft() {
	l.t.Helper()
	if held := l.plugins.Held(); len(held) > 0 {
		l.t.Errorf("addresses left: %v", held)
	}
	if ids := l.namespaces.Namespaces(); len(ids) > 0 {
		l.t.Errorf("namespaces left: %v", ids)
	}
	if states, err := l.runtime.States(context.Background()); err != nil || len(states) > 0 {
		l.t.Errorf("containers left: %v, %v", states, err)
	}
	if mounts, err := mount.Below(l.Server.cfg.StateDir); err != nil || len(mounts) > 0 {
		l.t.Errorf("mounts left: %v, %v", mounts, err)
	}
	if ids := l.cgroups.Children(); len(ids) > 0 {
		l.t.Errorf("cgroups left: %v", ids)
	}
	for _, kind := range []string{"sandboxes", "containers", "exits"} {
		entries, err := os.ReadDir(filepath.Join(l.Server.cfg.StateDir, kind))
		if err != nil || len(entries) > 0 {
			l.t.Errorf("%s left: %v, %v", kind, entries, err)
		}
	}
	l.images.mu.Lock()
	defer l.images.mu.Unlock()
	if len(l.images.holds) > 0 {
		l.t.Errorf("images held: %v", l.images.holds)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sandboxConfig and containerConfig return configurations as the kubelet sends
// them.
func sandboxConfig(name string) *runtime.PodSandboxConfig {
	return &runtime.PodSandboxConfig{
		Metadata: &runtime.PodSandboxMetadata{Name: name, Namespace: "ns", Uid: "uid-" + name}, Hostname: name,
		LogDirectory: `\var\log\pods\ns_` + name, Labels: map[string]string{"app": name},
		DnsConfig: &runtime.DNSConfig{Servers: []string{"10.96.0.10"}, Searches: []string{"ns.svc.cluster.local"}},
		PortMappings: []*runtime.PortMapping{{ContainerPort: 80},
			{ContainerPort: 81, HostPort: 8081, Protocol: runtime.Protocol_UDP}},
		Windows: &runtime.WindowsPodSandboxConfig{SecurityContext: &runtime.WindowsSandboxSecurityContext{}},
	}
}

func containerConfig(name string, args ...string) *runtime.ContainerConfig {
	return &runtime.ContainerConfig{
		Metadata: &runtime.ContainerMetadata{Name: name},
		Image:    &runtime.ImageSpec{Image: testImage},
		Args:     args,
		LogPath:  name + `\0.log`,
		Windows:  &runtime.WindowsContainerConfig{Resources: &runtime.WindowsContainerResources{}},
	}
}

func (l *lab) runSandbox(config *runtime.PodSandboxConfig) string {
	l.t.Helper()
	r, err := l.Runtime.RunPodSandbox(l.t.Context(), &runtime.RunPodSandboxRequest{Config: config})
	must(l.t, err)
	return r.PodSandboxId
}

func (l *lab) create(sandbox string, config *runtime.ContainerConfig) string {
	l.t.Helper()
	r, err := l.Runtime.CreateContainer(l.t.Context(), &runtime.CreateContainerRequest{PodSandboxId: sandbox,
		Config: config})
	must(l.t, err)
	return r.ContainerId
}

func (l *lab) startContainerOK(id string) {
	l.t.Helper()
	_, err := l.Runtime.StartContainer(l.t.Context(), &runtime.StartContainerRequest{ContainerId: id})
	must(l.t, err)
}

// run creates and starts.
func (l *lab) run(sandbox string, config *runtime.ContainerConfig) string {
	l.t.Helper()
	id := l.create(sandbox, config)
	l.startContainerOK(id)
	return id
}

func (l *lab) status(id string) *runtime.ContainerStatus {
	l.t.Helper()
	r, err := l.Runtime.ContainerStatus(l.t.Context(), &runtime.ContainerStatusRequest{ContainerId: id})
	must(l.t, err)
	return r.Status
}

// wait waits for the end of a container.
func (l *lab) wait(id string) *runtime.ContainerStatus {
	l.t.Helper()
	var st *runtime.ContainerStatus
	testenv.Until(l.t, "the end of the container", func() bool {
		st = l.status(id)
		return st.State == runtime.ContainerState_CONTAINER_EXITED
	})
	return st
}

// logText returns the contents of the container's log, without the prefixes.
func (l *lab) logText(config *runtime.PodSandboxConfig, name string) string {
	l.t.Helper()
	dir := strings.ReplaceAll(config.LogDirectory, `\`, "/")
	data, err := os.ReadFile(filepath.Join(l.drive, dir, name, "0.log"))
	must(l.t, err)
	return string(data)
}
