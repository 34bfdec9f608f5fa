// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hnstest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/emul"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/hns/wire"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.EnterWine()
	m.Run()
}

// prefixed is a Wine prefix with the DLLs of native/.
type prefixed struct{ dir string }

// newPrefix fills a prefix, which takes Wine some seconds.
func newPrefix(t *testing.T) *prefixed {
	t.Helper()
	testenv.Need(t, testenv.Wine, testenv.MinGW)
	testenv.Compiles(t, "native")
	p := &prefixed{dir: filepath.Join(t.TempDir(), "prefix")}
	dlls := t.TempDir()
	var targets []string
	for _, name := range []string{"computenetwork", "vmcompute"} {
		targets = append(targets, filepath.Join(dlls, name+".dll"))
	}
	make := exec.CommandContext(t.Context(), "make", append([]string{"-C", testenv.Repo("native"), "OUT=" + dlls},
		targets...)...)
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("build DLLs: %v\n%s", err, out)
	}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.stop(t) })
	if out, err := testenv.CombinedOutput(t, p.command(t.Context(), "", "wineboot.exe", "--init")); err != nil {
		t.Fatalf("fill Wine prefix: %v\n%s", err, out)
	}
	for _, dll := range targets {
		content, err := os.ReadFile(dll)
		if err != nil {
			t.Fatal(err)
		}
		// Wine makes some files of system32 read-only.
		to := filepath.Join(p.dir, "drive_c/windows/system32", filepath.Base(dll))
		if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *prefixed) env() []string {
	return append(os.Environ(), "WINEPREFIX="+p.dir, "WINEARCH=win64", "WINEDEBUG=-all",
		"WINEDLLOVERRIDES=mscoree,mshtml=;winemenubuilder.exe=d")
}

// command returns a Windows program that finds its HNS at an address.
func (p *prefixed) command(ctx context.Context, address, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/usr/lib/wine/wine64", append([]string{program}, args...)...)
	cmd.Env = append(p.env(), "MULLION_HNS_ADDRESS="+address)
	return cmd
}

// stop ends everything that runs in the prefix, and removes the directory of its
// server's socket.
func (p *prefixed) stop(t *testing.T) {
	for _, flag := range []string{"-k", "-w"} {
		cmd := exec.Command("/usr/lib/wine/wineserver64", flag)
		cmd.Env = p.env()
		var exit *exec.ExitError // -k fails if none runs
		if out, err := cmd.CombinedOutput(); err != nil && !errors.As(err, &exit) {
			t.Errorf("stop Wine: %v\n%s", err, out)
		}
	}
	info, err := os.Stat(p.dir)
	if err != nil {
		t.Error(err)
		return
	}
	st := info.Sys().(*syscall.Stat_t)
	if err := os.RemoveAll(fmt.Sprintf("/tmp/.wine-%d/server-%x-%x", os.Getuid(), st.Dev, st.Ino)); err != nil {
		t.Error(err)
	}
}

// buildTest cross-compiles the tests of a package.
func buildTest(t *testing.T, module, pkg, tags string) string {
	t.Helper()
	testenv.Compiles(t, "upstream", "internal/hns", "internal/winsys")
	exe := filepath.Join(t.TempDir(), filepath.Base(pkg)+".test.exe")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", tags, "-o", exe, pkg)
	cmd.Dir = testenv.Repo(module)
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build tests of %s: %v\n%s", pkg, err, out)
	}
	return exe
}

// verdicts returns the top-level results in the output of a test program.
func verdicts(out []byte) map[string][]string {
	found := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\S+)`).FindAllSubmatch(out, -1) {
		found[string(m[1])] = append(found[string(m[1])], string(m[2]))
	}
	return found
}

func TestUnderWine(t *testing.T) {
	p := newPrefix(t)
	t.Run("hnslib", func(t *testing.T) { testHnslib(t, p) })
	t.Run("CNI plugins", func(t *testing.T) { testPluginsLibrary(t, p) })
	t.Run("winkernel", func(t *testing.T) { testWinkernel(t, p) })
	exe := buildTest(t, ".", "./internal/hns/native", "")
	t.Run("suite", func(t *testing.T) { testSuite(t, p, exe) })
	t.Run("backend down", func(t *testing.T) { testBackendDown(t, p, exe) })
	t.Run("backend restarts", func(t *testing.T) { testRestart(t, p, exe) })
	t.Run("hostile answers", func(t *testing.T) { testHostileAnswers(t, p, exe) })
	t.Run("win-bridge", func(t *testing.T) { testWinBridge(t, p) })
	t.Run("mullion-bridge", func(t *testing.T) { testMullionBridge(t, p) })
	t.Run("kube-proxy", func(t *testing.T) { testKubeProxy(t, p) })
}

// hnslibTests is how many test functions hnslib v0.1.2 has under the tags. If it
// changes, docs/fidelity/hns.md must.
const hnslibTests = 78

// expectedFailures of Microsoft's tests, with the reason. The tests do not ask
// for the version before they use a feature of it.
func expectedFailures(v schema.Version) map[string]string {
	if v.AtLeast(15, 4) {
		return nil
	}
	return map[string]string{
		"TestCreateUpdateDeleteLoadBalancer": "HcnModifyLoadBalancer is new in HNS 15.4; before, E_NOTIMPL makes " +
			"kube-proxy fall back",
	}
}

// testHnslib runs Microsoft's own integration tests: the client code of
// kube-proxy against the DLLs and the emulator.
func testHnslib(t *testing.T, p *prefixed) {
	exe := buildTest(t, "upstream", "github.com/Microsoft/hnslib/hcn",
		"integration integration_loadbalancer featureroutesupport")
	for _, v := range []schema.Version{emul.VersionOf(17763), emul.VersionOf(20348), emul.VersionOf(26100)} {
		t.Run(fmt.Sprintf("%d.%d", v.Major, v.Minor), func(t *testing.T) {
			cmd := p.command(t.Context(), serve(t, open(t, v)), exe, "-test.v")
			out, err := testenv.CombinedOutput(t, cmd)
			got := verdicts(out)
			t.Logf("HNS %d.%d: pass %d, fail %d, skip %d", v.Major, v.Minor, len(got["PASS"]), len(got["FAIL"]),
				len(got["SKIP"]))
			if n := len(got["PASS"]) + len(got["FAIL"]) + len(got["SKIP"]); n != hnslibTests {
				t.Errorf("%d tests ran, want %d: %v\n%s", n, hnslibTests, err, tail(out))
			}
			if len(got["SKIP"]) > 0 {
				t.Errorf("skipped %q; docs/fidelity/hns.md says that none is", got["SKIP"])
			}
			want := expectedFailures(v)
			for _, name := range got["FAIL"] {
				if want[name] == "" {
					t.Errorf("%s failed\n%s", name, tail(out))
				}
			}
			for name := range want {
				if !slices.Contains(got["FAIL"], name) {
					t.Errorf("%s did not fail; remove it from the expected failures", name)
				}
			}
		})
	}
}

func tail(out []byte) []byte { return out[max(0, len(out)-4000):] }

// testSuite runs this package's suite, and the rules about pointers, through the
// DLLs.
func testSuite(t *testing.T, p *prefixed, exe string) {
	// These want servers of their own: testBackendDown, testRestart and
	// testHostileAnswers run them.
	address := serve(t, open(t, schema.Version{}))
	cmd := p.command(t.Context(), address, exe, "-test.v", "-test.skip", "^Test(G15|Hostile)",
		"-test.bench", ".", "-test.benchtime", "2000x")
	out, err := testenv.CombinedOutput(t, cmd)
	t.Logf("%s", regexp.MustCompile(`(?m)^Benchmark.*ns/op`).Find(out))
	if got := verdicts(out); err != nil || len(got["PASS"]) < 5 || bytes.Contains(out, []byte("--- SKIP")) {
		t.Errorf("%v: %v; a test that skips counts as one that fails\n%s", err, got, out)
	}
}

// testRestart restarts the server whenever the program says so.
func testRestart(t *testing.T, p *prefixed, exe string) {
	dir, address := t.TempDir(), "127.0.0.1:0"
	start := func() (stop func()) {
		s, err := emul.Open(t.Context(), emul.Config{Dir: dir, DataPlane: &Plane{},
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		address = l.Addr().String()
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- (&wire.Server{API: s, Log: slog.New(slog.DiscardHandler)}).Serve(ctx, l) }()
		return func() {
			cancel()
			if err := errors.Join(<-done, s.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	stop := start()
	cmd := p.command(t.Context(), address, exe, "-test.v", "-test.run", "TestG15Restart")
	cmd.Env = append(cmd.Env, "MULLION_TEST_BACKEND=restart")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []byte
	restarts := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said = append(append(said, lines.Bytes()...), '\n')
		if strings.TrimSpace(lines.Text()) == "restart" {
			restarts++
			stop()
			stop = start()
			if _, err := in.Write([]byte("\n")); err != nil {
				t.Error(err)
			}
		}
	}
	stop()
	if err := cmd.Wait(); err != nil || restarts != 3 {
		t.Errorf("%d restarts, %v\n%s", restarts, err, said)
	}
}

func testBackendDown(t *testing.T, p *prefixed, exe string) {
	// Nothing listens on port 1 of the loopback address.
	cmd := p.command(t.Context(), "127.0.0.1:1", exe, "-test.v", "-test.run", "^TestG15BackendDown$")
	cmd.Env = append(cmd.Env, "MULLION_TEST_BACKEND=down")
	out, err := testenv.CombinedOutput(t, cmd)
	if got := verdicts(out); err != nil || !slices.Equal(got["PASS"], []string{"TestG15BackendDown"}) ||
		len(got["SKIP"]) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// testWinBridge adds a pod to the network and removes it, each twice, with the
// unmodified CNI plugins.
func testWinBridge(t *testing.T, p *prefixed) {
	p.installCNI(t, "win-bridge.exe", "host-local.exe")
	s := open(t, schema.Version{})
	address := serve(t, s)
	c := &client{T: t, api: s}
	n := c.create(hns.Network, schema.GUID{}, `{"Name":"cbr0","Type":"L2Bridge","SchemaVersion":{"Major":2,"Minor":0},
		"Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"198.18.1.0/24",
		  "Routes":[{"NextHop":"198.18.1.1","DestinationPrefix":"0.0.0.0/0"}]}]}]}`)
	ns, err := s.CreateNamespace(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Without dataDir host-local would write to /var/lib/cni, which is a path of
	// the machine in a prefix like this one.
	config := `{"cniVersion":"1.0.0","name":"cbr0","type":"win-bridge","apiVersion":2,
	  "capabilities":{"portMappings":true,"dns":true},
		"runtimeConfig":{"dns":{"servers":["198.18.9.10"],"searches":["default.svc.cluster.local"]},
		  "portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]},
		"ipam":{"type":"host-local","dataDir":"C:\\cni\\state",
		  "ranges":[[{"subnet":"198.18.1.0/24","rangeStart":"198.18.1.3"}]]},
		"policies":[{"name":"EndpointPolicy","value":{"Type":"OutBoundNAT",
		  "Settings":{"Exceptions":["198.18.0.0/15"]}}}]}`
	run := func(command string) []byte {
		t.Helper()
		cmd := p.command(t.Context(), address, `C:\cni\win-bridge.exe`)
		cmd.Env = append(cmd.Env, "CNI_COMMAND="+command, "CNI_CONTAINERID=0123abcd", "CNI_NETNS="+ns,
			"CNI_IFNAME=eth0", `CNI_PATH=C:\cni`)
		cmd.Stdin = strings.NewReader(config)
		var out, errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errOut
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s%s", command, err, out.Bytes(), errOut.Bytes())
		}
		return out.Bytes()
	}
	for range 2 {
		var result struct {
			IPs []struct{ Address, Gateway string }
			DNS struct{ Nameservers []string }
		}
		if out := run("ADD"); json.Unmarshal(out, &result) != nil || len(result.IPs) != 1 ||
			result.IPs[0].Address != "198.18.1.3/24" || len(result.DNS.Nameservers) != 1 {
			t.Errorf("ADD printed %s", out)
		}
		ids := c.enumerate(hns.Endpoint, c.filter("VirtualNetwork", n.String()))
		if len(ids) != 1 {
			t.Fatalf("endpoints %v, want one", ids)
		}
		var e schema.Endpoint
		if c.query(hns.Endpoint, c.parse(ids[0]), &e); e.HostComputeNamespace != ns || e.Name != "0123abcd_cbr0" ||
			len(e.Policies) != 2 {
			t.Errorf("endpoint %+v", e)
		}
	}
	for range 2 {
		run("DEL")
		if ids := c.enumerate(hns.Endpoint, ""); len(ids) != 0 {
			t.Errorf("endpoints %v after DEL", ids)
		}
	}
}
