// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/winsys/scm/scmtest"
)

// rig is a whole node in a directory: a fake service manager whose kubelet
// joins as the real one does, our emulator of HNS, and an API server over TLS.
type rig struct {
	t     *testing.T
	disk  Disk
	scm   *scmtest.Fake
	hns   *recordedHNS
	api   *fakeAPI
	cfg   Config
	agent *Agent
	now   time.Time
	ctx   context.Context // of passes
	ill   atomic.Value    // the error of checks at an address, as map[string]error
}

func newRig(t *testing.T) *rig {
	t.Helper()
	api := newFakeAPI(t, "node-1")
	r := &rig{t: t, disk: Disk{Root: t.TempDir()}, scm: scmtest.NewFake(), hns: newHNS(t), api: api, now: time.Now(),
		ctx: t.Context()}
	r.cfg = testConfig()
	r.cfg.Cluster.Server, r.cfg.Cluster.CAHash = api.url(), api.pin()
	for _, d := range directories() {
		if err := os.MkdirAll(r.disk.Path(d.path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.write(r.cfg.Cluster.CAFile, string(api.ca.PEM))
	r.write(r.cfg.Cluster.TokenFile, "abcdef.0123456789abcdef\n")
	r.scm.OnStart = func(name string) error {
		if name == "kubelet" {
			return r.join()
		}
		return nil
	}
	r.restartAgent()
	return r
}

func testConfig() Config {
	return Config{
		APIVersion: Version,
		Node: Node{
			Name:    "node-1",
			Address: netip.MustParseAddr("10.89.0.11"),
			Labels:  map[string]string{"b": "2", "a": "1"},
			Taints:  []string{"os=windows:NoSchedule"},
		},
		Cluster: Cluster{
			Server:      "https://10.89.0.1:6443",
			CAFile:      StateDir + `\ca.crt`,
			TokenFile:   StateDir + `\bootstrap-token`,
			Domain:      "cluster.local",
			CAHash:      "sha256:" + strings.Repeat("0", 64),
			DNS:         []netip.Addr{netip.MustParseAddr("10.96.0.10")},
			PodCIDR:     netip.MustParsePrefix("10.244.0.0/16"),
			ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
			NodeCIDRs:   []netip.Prefix{netip.MustParsePrefix("10.89.0.0/24")},
		},
		Runtime: Runtime{Endpoint: "tcp://127.0.0.1:10271"},
		Network: Network{Name: "cbr0"},
	}
}

// join joins the cluster as a kubelet does with a bootstrap kubeconfig.
func (r *rig) join() error {
	if _, err := os.Stat(r.disk.Path(KubeletKeyPair)); err == nil {
		return nil
	}
	boot, err := os.ReadFile(r.disk.Path(bootstrapKubeconfig))
	if err != nil {
		return err
	}
	if !strings.Contains(string(boot), "abcdef.0123456789abcdef") {
		return errors.New("no token in the bootstrap kubeconfig")
	}
	r.write(KubeletKeyPair, string(r.api.issue("system:node:node-1", r.now.Add(365*24*time.Hour))))
	r.write(kubeletKubeconfig, "{}")
	return nil
}

func (r *rig) write(windows, content string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(r.disk.Path(windows)), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.disk.Path(windows), []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) read(windows string) string {
	r.t.Helper()
	content, err := os.ReadFile(r.disk.Path(windows))
	if err != nil {
		r.t.Error(err)
	}
	return string(content)
}

func (r *rig) exists(windows string) bool {
	_, err := os.Stat(r.disk.Path(windows))
	return !errors.Is(err, fs.ErrNotExist)
}

// restartAgent replaces the agent by one that knows nothing, as after a crash.
func (r *rig) restartAgent() {
	r.agent = New(Options{
		Config: r.cfg, Disk: r.disk, SCM: r.scm, HNS: r.hns, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return r.now },
		Answers: func(_ context.Context, address string) error {
			ill, _ := r.ill.Load().(map[string]error)
			return ill[address]
		},
	})
}

// passes lets the agent work n times.
func (r *rig) passes(n int) (complete bool) {
	for range n {
		complete = r.agent.pass(r.ctx)
	}
	return complete
}

func (r *rig) wantStatus(check func(Status) bool, what string) {
	r.t.Helper()
	s, err := ReadStatus(r.disk)
	if err != nil || !check(s) {
		r.t.Errorf("%s: status %+v, %v", what, s, err)
	}
}

// wantNetwork checks which calls changed HNS, and what the data plane has now.
func (r *rig) wantNetwork(calls, net string) {
	r.t.Helper()
	if got := r.hns.changes(); got != calls {
		r.t.Errorf("calls of HNS:\n%s\nwant\n%s", got, calls)
	}
	if got, want := r.hns.plane.Dump(), networkOf(net); got != want {
		r.t.Errorf("data plane:\n%s\nwant\n%s", got, want)
	}
}

// TestANodeComesUp follows a new node from the first pass to Ready.
func TestANodeComesUp(t *testing.T) {
	r := newRig(t)
	if r.passes(1) {
		t.Error("complete without the cluster")
	}
	if got := r.scm.Dump(); got != "create kubelet\nstart kubelet" {
		t.Errorf("first pass did:\n%s", got)
	}
	if r.passes(2) {
		t.Error("complete without a pod range")
	}
	for _, secret := range []string{bootstrapKubeconfig, r.cfg.Cluster.TokenFile} {
		if r.exists(secret) {
			t.Errorf("%s is still there after joining", secret)
		}
	}
	if r.exists(cniConf) {
		t.Error("CNI is configured before the pod range is known")
	}
	r.api.setNode("10.244.3.0/24", false)
	r.passes(2)
	r.wantNetwork(createsNetwork, "10.244.3")
	if !strings.Contains(r.read(cniConf), `"subnet": "10.244.3.0/24"`) {
		t.Errorf("CNI configuration:\n%s", r.read(cniConf))
	}
	if got := r.scm.Dump(); got != "create kube-proxy\nstart kube-proxy" {
		t.Errorf("services:\n%s", got)
	}
	r.api.setNode("10.244.3.0/24", true)
	if !r.passes(1) {
		t.Error("not complete although the node is Ready")
	}
	r.wantStatus(Status.Healthy, "healthy")
	// A restarted agent has nothing to do.
	r.restartAgent()
	if !r.passes(3) || r.scm.Dump()+r.hns.changes() != "" {
		t.Error("a pass over a complete node changed something")
	}
}

// up returns a rig with a complete node.
func up(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.api.setNode("10.244.3.0/24", true)
	if !r.passes(6) {
		t.Fatalf("the node did not come up: %s", r.agent.status.Message)
	}
	r.scm.Dump()
	r.hns.changes()
	return r
}

func TestADeadServiceIsStartedAgain(t *testing.T) {
	for _, stale := range []bool{false, true} {
		r := up(t)
		r.scm.Stale = stale
		r.now = r.now.Add(time.Minute)
		// After the first crash in a while the restart is immediate, later ones are delayed.
		for i, wait := range []time.Duration{0, 2 * firstWait, 4 * firstWait, 8 * firstWait} {
			if err := r.scm.Kill("kubelet"); err != nil {
				t.Fatal(err)
			}
			r.scm.Dump()
			if wait > 0 {
				r.passes(1)
				if got := r.scm.Dump(); got != "" {
					t.Errorf("stale=%v: crash %d: not backed off: %s", stale, i, got)
				}
			}
			r.now = r.now.Add(wait)
			r.passes(1)
			if got := r.scm.Dump(); got != "start kubelet" {
				t.Errorf("stale=%v: crash %d: after %s: %q", stale, i, wait, got)
			}
		}
		r.wantStatus(func(s Status) bool {
			return s.Kubelet.Restarts == 4 && s.Kubelet.State == "running"
		}, "restarts counted")
	}
}

func TestAChangedConfigurationRestarts(t *testing.T) {
	r := up(t)
	r.cfg.Cluster.Domain = "other.local"
	r.restartAgent()
	r.passes(3)
	if got := r.scm.Dump(); got != "stop kubelet\nstart kubelet" {
		t.Errorf("services:\n%s\nwant only the kubelet restarted", got)
	}
	// Foreign changes to the file are reverted without a restart: the kubelet
	// reads it only when it starts.
	r.write(kubeletConfig, "rubbish")
	r.passes(2)
	if strings.Contains(r.read(kubeletConfig), "rubbish") || r.scm.Dump() != "" {
		t.Error("the kubelet's configuration was not restored, or not without a restart")
	}
}

func TestAnotherPodRangeReplacesTheNetwork(t *testing.T) {
	r := up(t)
	r.api.setNode("10.244.9.0/24", true)
	r.now = r.now.Add(clusterEvery)
	r.passes(2)
	r.wantNetwork(deletesNetwork+createsNetwork, "10.244.9")
	if !strings.Contains(r.read(cniConf), "10.244.9.0/24") {
		t.Error("the CNI configuration has the old range")
	}
}

// TestPodsOfAFormerRangeAreDeleted: when the network has another range, and later, because a pod may report its
// address late.
func TestPodsOfAFormerRangeAreDeleted(t *testing.T) {
	r := up(t)
	pod := func(name, address string) string {
		return `{"metadata": {"namespace": "shop", "name": "` + name + `"},
		  "status": {"podIPs": [{"ip": "` + address + `"}]}}`
	}
	r.api.setPods(pod("before", "10.244.3.7"))
	r.api.setNode("10.244.9.0/24", true)
	r.now = r.now.Add(clusterEvery)
	r.passes(2)
	r.api.setPods(pod("after", "10.244.9.3") + "," + pod("late", "10.244.3.8"))
	r.passes(2)
	r.now = r.now.Add(clusterEvery)
	r.passes(2)
	want := []string{"/api/v1/namespaces/shop/pods/before", "/api/v1/namespaces/shop/pods/late"}
	if got := r.api.deletions(); !slices.Equal(got, want) {
		t.Errorf("deleted %q, want %q", got, want)
	}
}

// TestAnotherPodRangeIsSeenAtOnce: the agent watches its node, because until the CNI
// configuration has the new range, pods get addresses that lead elsewhere.
func TestAnotherPodRangeIsSeenAtOnce(t *testing.T) {
	r := up(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.agent.Run(ctx) }()
	r.api.setNode("10.244.9.0/24", true)
	testenv.Until(t, "the new range in the CNI configuration", func() bool {
		content, _ := os.ReadFile(r.disk.Path(cniConf)) // on Windows an error while it is replaced
		return strings.Contains(string(content), "10.244.9.0/24")
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestARefusedWatchIsNotRepeatedAtOnce: an API server that has just started cannot watch from versions of before, and
// nothing changes them while the node does not change.
func TestARefusedWatchIsNotRepeatedAtOnce(t *testing.T) {
	r := up(t)
	r.api.mu.Lock()
	r.api.tooOld, r.api.reads = true, 0
	r.api.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := r.agent.Run(ctx); err != nil {
		t.Error(err)
	}
	r.api.mu.Lock()
	defer r.api.mu.Unlock()
	if r.api.reads > 3 {
		t.Errorf("the node was read %d times in a second", r.api.reads)
	}
}

func TestAnExpiredNodeJoinsAgain(t *testing.T) {
	r := up(t)
	r.now = r.now.Add(400 * 24 * time.Hour)
	if r.passes(1) || !strings.Contains(r.agent.status.Message, "there is no bootstrap token") {
		t.Errorf("message %q", r.agent.status.Message)
	}
	if err := os.Remove(r.disk.Path(KubeletKeyPair)); err != nil {
		t.Fatal(err)
	}
	r.write(r.cfg.Cluster.TokenFile, "abcdef.0123456789abcdef")
	if err := r.scm.Kill("kubelet"); err != nil {
		t.Fatal(err)
	}
	r.passes(2)
	if !r.agent.status.Joined {
		t.Errorf("not joined: %s", r.agent.status.Message)
	}
}

func TestProblemsAreSaidAndSurvived(t *testing.T) {
	r := up(t)
	r.hns.setFail(errors.New("the RPC server is unavailable"))
	if r.passes(1) {
		t.Error("complete without HNS")
	}
	r.wantStatus(func(s Status) bool { return strings.Contains(s.Message, "RPC server") && !s.Network }, "HNS down")
	r.hns.setFail(nil)
	r.api.down(true)
	r.now = r.now.Add(clusterEvery)
	if r.passes(1) {
		t.Error("complete without the cluster")
	}
	if err := r.scm.Kill("kube-proxy"); err != nil {
		t.Fatal(err)
	}
	r.now = r.now.Add(time.Hour)
	r.scm.Dump()
	r.passes(1)
	if got := r.scm.Dump(); got != "start kube-proxy" {
		t.Errorf("the services are not kept while the cluster is away: %q", got)
	}
	r.api.down(false)
	if !r.passes(2) {
		t.Errorf("not recovered: %s", r.agent.status.Message)
	}
	r.write(r.cfg.Cluster.CAFile, string(newFakeAPI(t, "other").ca.PEM))
	r.passes(1)
	r.wantStatus(func(s Status) bool { return strings.Contains(s.Message, "not the pinned one") }, "another CA")
}

func TestRunEndsWithItsContext(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.agent.Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
}

// TestStatuses: each status that the agent writes to its file is also printed, once.
func TestStatuses(t *testing.T) {
	r := newRig(t)
	var out bytes.Buffer
	r.agent.Statuses = &out
	r.passes(1)
	r.api.setNode("10.244.3.0/24", true)
	r.passes(5)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(slices.Compact(slices.Clone(lines))) != len(lines) || len(lines) < 2 {
		t.Errorf("printed\n%s", out.String())
	}
	file, err := ReadStatus(r.disk)
	if err != nil {
		t.Fatal(err)
	}
	last, err := json.Marshal(file)
	if err != nil || string(last) != lines[len(lines)-1] {
		t.Errorf("the file has %s, %v, and the last line is %s", last, err, lines[len(lines)-1])
	}
}
