// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package critest runs the CRI project's own conformance suite for Windows
// (critest.exe of sigs.k8s.io/cri-tools, unmodified, under Wine) against the
// container runtime of an emulated host, with everything real but Kubernetes:
// Wine, runc, the stand-in images, the Host Networking Service with its data
// plane, and the unmodified win-bridge.exe and host-local.exe.
//
//	go test ./test/conformance/critest -v
//	go test ./test/conformance/critest -v -focus 'exec with tty'
//
// The suite pulls images that are published for Windows. All have stand-ins, some
// of them here only (see suiteImages), so that nothing depends on the network.
package critest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/server"
	"github.com/mullion-k8s/mullion/internal/cri/wineengine"
	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/emul"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/hns/wire"
	"github.com/mullion-k8s/mullion/internal/netplane/apply"
	"github.com/mullion-k8s/mullion/internal/standin"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/wine"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

func TestMain(m *testing.M) {
	testenv.EnterWine()
	m.Run()
}

var focus = flag.String("focus", "", "run only the specs that match")

// inside says that the process is in the namespaces that the test made.
const inside = "MULLION_TEST_CRITEST_INSIDE"

func TestCritest(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Runc, testenv.Nft, testenv.Wine, testenv.Built)
	testenv.Need(t, testenv.Suites)
	if os.Getenv(inside) == "" {
		outside(t)
		return
	}
	report := runSuite(t)
	judge(t, report)
}

// outside runs the test again where it cannot harm: alone in network, PID and
// mount namespaces. The shell is there to reap what others leave.
func outside(t *testing.T) {
	args := []string{"-test.run=^TestCritest$", "-test.v", "-test.timeout=60m", "-focus=" + *focus}
	script := `ip link set lo up && ip link add eth0 type veth peer name far && ip addr add 10.89.250.11/24 dev eth0 ` +
		`&& ip link set eth0 up && ip link set far up && ip route add default via 10.89.250.254 && "$0" "$@"; exit $?`
	cmd := exec.CommandContext(t.Context(), "unshare",
		append([]string{"--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "sh", "-c", script,
			"/proc/self/exe"}, args...)...)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Args[slices.Index(cmd.Args, "/proc/self/exe")] = self
	cmd.Env = append(os.Environ(), inside+"=1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("critest: %v", err)
	}
}

// must is for steps without which nothing else makes sense.
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// host is an emulated host without kubelet.
type host struct {
	wine   wine.Host
	drive  string
	listen string
}

// RunPlugin runs a CNI plugin; see winhost, which does the same.
func (h host) RunPlugin(ctx context.Context, exe string, env []string,
	stdin []byte) (stdout, stderr []byte, err error) {
	cmd := h.command(ctx, exe)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.Bytes(), errs.Bytes(), err
}

func (h host) command(ctx context.Context, exe string, args ...string) *exec.Cmd {
	argv := h.wine.Argv(exe, args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = h.wine.Env(), h.drive, time.Second
	return cmd
}

// distant are images that come over a network: stand-ins are there within a
// millisecond, which the suite takes for a time in which no image can be pulled.
type distant struct{ server.Images }

// roundTrip is less than any registry needs for its first answer.
const roundTrip = 5 * time.Millisecond

func (d distant) Pull(ctx context.Context, ref string, auth *image.Auth) (*image.Image, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(roundTrip):
	}
	return d.Images.Pull(ctx, ref, auth)
}

// start builds the host and serves until the test ends.
func start(t *testing.T) host {
	ctx, cancel := context.WithCancel(context.Background())
	dir := t.TempDir()
	cache := testenv.Cache(t)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	build := must(winver.Parse("2019"))(t)
	rt := must(wine.OpenRuntime(ctx, cache, testenv.Bin(), log))(t)
	h := host{wine: wine.Host{Runtime: rt.Dir, Prefix: filepath.Join(dir, "prefix")},
		drive: filepath.Join(dir, "prefix", "drive_c")}
	template := must(rt.HostPrefix(ctx, build))(t)
	for _, d := range []string{"prefix", "prefix-upper", "prefix-work"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The test has its own mount namespace, so a leftover mount would go with it.
	run(t, "mount", "-t", "overlay", "overlay", "-o", "lowerdir="+template+",upperdir="+
		filepath.Join(dir, "prefix-upper")+",workdir="+filepath.Join(dir, "prefix-work"), h.wine.Prefix)
	t.Cleanup(func() { run(t, "umount", "-l", h.wine.Prefix) })
	install(t, h)

	// /run of the machine is not ours to write to.
	run(t, "mount", "-t", "tmpfs", "tmpfs", "/run")
	plane := must(apply.New(apply.Config{NetnsDir: filepath.Join(dir, "netns"), Log: log}))(t)
	service := must(emul.Open(ctx, emul.Config{
		Dir:       filepath.Join(dir, "hns"),
		Version:   emul.VersionOf(build.Number),
		DataPlane: plane,
		Log:       log,
	}))(t)
	id := must(service.Create(ctx, hns.Network, schema.GUID{}, schema.GUID{}, network))(t)
	attachHost(t, service, id.String())

	programs := standin.Programs{Winbox: testenv.Bin("windows", "winbox.exe"),
		PowerShell: testenv.Bin("windows", "powershell.exe")}
	standIns := must(standin.Prepare(ctx, cache, programs, log))(t)
	images := must(image.Open(filepath.Join(dir, "images"), image.Config{
		HostBuild:   build,
		Base:        rt.ContainerLayers,
		StandIns:    suiteImages{standIns},
		ExternalDir: cache,
		UID:         wine.ContainerUID,
		GID:         wine.ContainerGID,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("the suite has no network")
		},
		Log: log,
	}))(t)
	group := "mullion-test-" + strings.ToLower(rand.Text())
	t.Cleanup(func() {
		// empty by now
		_ = exec.Command("sh", "-c", `find /sys/fs/cgroup -depth -type d -path "*/$0*" -exec rmdir {} +`, group).Run()
	})
	// Not installed beforehand: the suite counts the names of an image, and
	// pulls what it needs.
	s := must(server.New(ctx, server.Config{
		StateDir:   filepath.Join(dir, "cri"),
		RunDir:     "/run/cri",
		Images:     distant{images},
		Namespaces: service,
		Plugins:    h,
		Engine:     wineengine.New(rt, build),
		Drive:      h.drive,
		Cgroup:     "/" + group,
		Build:      build,
		Version:    "test",
		Hostname:   "critest",
		Log:        log,
	}))(t)
	hnsListener := must(net.Listen("tcp", "127.0.0.1:10270"))(t)
	criListener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	h.listen = criListener.Addr().String()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return (&wire.Server{API: service, Log: log}).Serve(ctx, hnsListener) })
	g.Go(func() error { return s.Serve(ctx, criListener) })
	t.Cleanup(func() {
		cancel()
		_ = g.Wait() // cancelled
		if err := images.Close(); err != nil {
			t.Error(err)
		}
		if err := service.Close(); err != nil {
			t.Error(err)
		}
		// The prefix cannot be removed under a running wineserver.
		kill := exec.Command(filepath.Join(rt.Dir, "usr/lib/wine/wineserver"), "-k")
		kill.Env = h.wine.Env()
		_ = kill.Run() // there may be none
	})
	return h
}

// network is the HNS network that the node's agent makes.
const network = `{"Name":"cbr0","Type":"L2Bridge","Ipams":[{"Type":"Static",
  "Subnets":[{"IpAddressPrefix":"10.249.0.0/24",
 "Routes":[{"NextHop":"10.249.0.1","DestinationPrefix":"0.0.0.0/0"}]}]}],"SchemaVersion":{"Major":2,"Minor":0}}`

// attachHost gives the host its address among the pods, as the agent does.
func attachHost(t *testing.T, service *emul.Service, network string) {
	call := func(path, request string) string {
		response := must(service.Call(t.Context(), "POST", path, request))(t)
		var r struct {
			Success bool
			Error   string
			Output  struct{ ID string }
		}
		if err := json.Unmarshal([]byte(response), &r); err != nil || !r.Success {
			t.Fatalf("%s: %s, %v", path, response, err)
		}
		return r.Output.ID
	}
	id := call("/endpoints/", `{"Name":"cbr0_ep","VirtualNetwork":"`+network+`","IPAddress":"10.249.0.2"}`)
	call("/endpoints/"+id+"/attach", `{"SystemType":"Host","CompartmentId":1}`)
}

// conf is the CNI configuration that the node's agent writes.
const conf = `{"cniVersion":"0.3.0","name":"cbr0","type":"win-bridge","apiVersion":2,
  "capabilities":{"portMappings":true,"dns":true},
 "ipam":{"type":"host-local","dataDir":"C:\\var\\lib\\cni\\networks",
   "ranges":[[{"subnet":"10.249.0.0/24","rangeStart":"10.249.0.3","gateway":"10.249.0.2"}]]},
 "policies":[{"name":"EndpointPolicy","value":{"Type":"OutBoundNAT","Settings":{"Exceptions":["10.249.0.0/16"]}}}]}`

// install puts the programs where they are on a node.
func install(t *testing.T, h host) {
	for from, to := range map[string]string{
		testenv.Bin("windows", "critest.exe"):    "critest/critest.exe",
		testenv.Bin("windows", "win-bridge.exe"): "Program Files/containerd/cni/bin/win-bridge.exe",
		testenv.Bin("windows", "host-local.exe"): "Program Files/containerd/cni/bin/host-local.exe",
	} {
		to = filepath.Join(h.drive, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		run(t, "cp", "--reflink=auto", from, to)
	}
	for name, content := range map[string]string{
		"Program Files/containerd/cni/conf/10-mullion.conf": conf,
		"critest/images.yaml": "defaultTestContainerImage: " +
			"mcr.microsoft.com/windows/servercore:ltsc2019\n" +
			"webServerTestImage: mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2019\n",
	} {
		name = filepath.Join(h.drive, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// spec is one line of ginkgo's report.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string // passed, failed, skipped, …
	RunTime                 time.Duration
	Failure                 struct{ Message string }
}

func (s spec) name() string {
	return strings.Join(append(slices.Clone(s.ContainerHierarchyTexts), s.LeafNodeText), " ")
}

// runSuite runs critest.exe as a user of a node would.
func runSuite(t *testing.T) []spec {
	h := start(t)
	var skips []string
	for name := range skipped() {
		skips = append(skips, regexp.QuoteMeta(name))
	}
	args := []string{
		"--runtime-endpoint", "tcp://" + h.listen, "--test-images-file", `C:\critest\images.yaml`,
		"--ginkgo.json-report", `C:\critest\report.json`, "--ginkgo.seed", "1", "--ginkgo.no-color", "--ginkgo.skip",
		strings.Join(append(skips, "benchmark"), "|"),
	}
	if *focus != "" {
		args = append(args, "--ginkgo.focus", *focus)
	}
	cmd := h.command(t.Context(), `C:\critest\critest.exe`, args...)
	cmd.Dir = filepath.Join(h.drive, "critest")
	out, err := cmd.CombinedOutput()
	t.Logf("critest.exe: %v\n%s", err, out)
	data, err := os.ReadFile(filepath.Join(h.drive, "critest", "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var reports []struct {
		SpecReports []spec
		// "Interrupted by User", "Suite Timeout Elapsed", "No tests ran", …
		SpecialSuiteFailureReasons []string
	}
	if err := json.Unmarshal(data, &reports); err != nil {
		t.Fatal(err)
	}
	var specs []spec
	for _, r := range reports {
		if len(r.SpecialSuiteFailureReasons) > 0 {
			t.Errorf("the suite failed as a whole: %q", r.SpecialSuiteFailureReasons)
		}
		for _, s := range r.SpecReports {
			if s.LeafNodeType != "It" && s.State != "passed" {
				t.Errorf("%s of the suite %s: %s", s.LeafNodeType, s.State, s.Failure.Message)
			}
			if s.LeafNodeType == "It" && !strings.Contains(s.name(), "benchmark") {
				specs = append(specs, s)
			}
		}
	}
	return specs
}

// results returns how many specs of each state critest v1.36.0 has for Windows,
// without its benchmarks and what skipped lists. docs/fidelity/cri.md repeats them.
func results() map[string]int { return map[string]int{"passed": 51, "failed": 2} }

// judge compares the report with what is known.
func judge(t *testing.T, specs []spec) {
	counts := map[string]int{}
	known, seen := failing(), map[string]bool{}
	for _, s := range specs {
		counts[s.State]++
		reason := known[s.LeafNodeText]
		seen[s.LeafNodeText] = true
		switch {
		case s.State == "passed" && reason != "":
			t.Errorf("%s passes now: remove it from the list of failures", s.name())
		case s.State == "passed", s.State == "skipped" && *focus != "":
		case s.State == "failed" && reason != "":
			t.Logf("known failure %s: %s", s.name(), reason)
		default: // panicked, timed out, interrupted, aborted or skipped as well
			t.Errorf("%s %s: %s", strings.ToUpper(s.State), s.name(), s.Failure.Message)
		}
	}
	if *focus == "" {
		if want := results(); !maps.Equal(counts, want) {
			t.Errorf("specs: %v, want %v: update docs/fidelity/cri.md with a new suite", counts, want)
		}
		for name := range known {
			if !seen[name] {
				t.Errorf("%s is in the list of failures and not in the suite", name)
			}
		}
	}
	if len(specs) == 0 {
		t.Error("no spec ran")
	}
	t.Logf("%d specs: %v", len(specs), counts)
	fmt.Printf("critest: %d specs: %d passed, %d failed, %d skipped\n", len(specs), counts["passed"], counts["failed"],
		counts["skipped"])
}
