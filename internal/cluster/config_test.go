// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/linuxhost"
	"github.com/mullion-k8s/mullion/internal/policy"
)

// TestCreateChoosesTheSmallestFreeIndex creates clusters beside others: those of
// the same data directory, and a running one of another.
func TestCreateChoosesTheSmallestFreeIndex(t *testing.T) {
	dir := t.TempDir()
	const elsewhere = 2 // the index of the running cluster
	made := func(name string, want int) {
		t.Helper()
		l := Layout{dir, name}
		c, err := create(l, Choice{Windows: []string{"ltsc2022"}}, func(c Config) error {
			if c.Index == elsewhere {
				return errors.New("in use")
			}
			return nil
		})
		if err != nil || c.Index != want {
			t.Fatalf("index %d, %v, want %d", c.Index, err, want)
		}
		if err := errors.Join(os.MkdirAll(l.Dir(), 0o700), c.save(l)); err != nil {
			t.Fatal(err)
		}
	}
	made("a", 0)
	made("b", 1)
	made("c", 3)
	if err := os.RemoveAll(Layout{dir, "b"}.Dir()); err != nil {
		t.Fatal(err)
	}
	made("d", 1) // which b left
	taken := func(Config) error { return errors.New("a route is in the way") }
	_, err := create(Layout{t.TempDir(), "e"}, Choice{}, taken)
	if err == nil || !strings.Contains(err.Error(), "none of 41 sets is free: a route is in the way") {
		t.Errorf("a machine without free addresses: %v", err)
	}
	// Of a cluster of two families, the addresses of both must be free.
	dual, err := create(Layout{t.TempDir(), "f"}, Choice{IPFamily: new("dual")}, func(c Config) error {
		if c.dual() && c.Index == 0 {
			return errors.New("in use")
		}
		return nil
	})
	if err != nil || dual.Index != 1 {
		t.Errorf("two families: index %d, %v, want 1", dual.Index, err)
	}
	names, err := Names(dir)
	if err != nil || !slices.Equal(names, []string{"a", "c", "d"}) {
		t.Errorf("names %v, %v", names, err)
	}
}

// TestMake makes a cluster on this machine, where others may run: its index is
// any.
func TestMake(t *testing.T) {
	l := Layout{t.TempDir(), "a"}
	made, err := Make(l, Choice{Windows: []string{"ltsc2022"}})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := Load(l)
	if err != nil || stored.Index != made.Index || !slices.Equal(stored.Windows, []string{"ltsc2022"}) {
		t.Errorf("stored %+v, %v, want %+v", stored, err, made)
	}
	for _, dir := range []string{l.run(), l.Logs(), l.cache()} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, tc := range []struct{ name, content, want string }{
		{"cut off by a power failure", `{"apiVersion":"mullion/v1alpha1","na`, "unexpected EOF"},
		{"empty", ``, "empty file"},
		{"another version", `{"apiVersion":"mullion/v9","name":"x","new":1}`, "use the mullion that made"},
		{"unknown field", `{"apiVersion":"mullion/v1alpha1","name":"x","linux":["a"]}`, "linux"},
		{"unknown build", `{"apiVersion":"mullion/v1alpha1","name":"x","windows":["xp"]}`, "xp"},
		{"a bad name", `{"apiVersion":"mullion/v1alpha1","name":"../x"}`, "cluster name"},
		{"unknown network", `{"apiVersion":"mullion/v1alpha1","name":"x","network":"ipvlan"}`,
			"want l2bridge, host-gw, vxlan"},
		{"unknown families",
			`{"apiVersion":"mullion/v1alpha1","name":"x","ipFamily":"ipv6"}`, "want \"dual\""},
		{"two families in an overlay",
			`{"apiVersion":"mullion/v1alpha1","name":"x","ipFamily":"dual","network":"vxlan"}`,
			"an overlay of Windows"},
		{"two families by flanneld",
			`{"apiVersion":"mullion/v1alpha1","name":"x","ipFamily":"dual","network":"host-gw"}`,
			"flanneld makes routes"},
		{"index out of range", `{"apiVersion":"mullion/v1alpha1","name":"x","index":4000}`, "index 4000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := Layout{t.TempDir(), "x"}
			if err := os.MkdirAll(l.Dir(), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(l.config(), []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(l); err == nil || !strings.Contains(err.Error(), tc.want) ||
				!strings.Contains(err.Error(), l.config()) {
				t.Errorf("err = %v, want the file's name and %q", err, tc.want)
			}
		})
	}
	if _, err := Load(Layout{t.TempDir(), "x"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("missing: %v", err)
	}
}

func TestMerge(t *testing.T) {
	c := Config{APIVersion: apiVersion, Name: "x", Windows: []string{"2019", "2022"}}
	for _, tc := range []struct {
		ask, want []string
		ok        bool
	}{
		{nil, []string{"2019", "2022"}, true},
		{[]string{"1809", "ltsc2022"}, []string{"2019", "2022"}, true},
		{[]string{"2019", "2022", "2025"}, []string{"2019", "2022", "2025"}, true},
		{[]string{}, nil, false},
		{[]string{"2019"}, nil, false},
		{[]string{"2022", "2019"}, nil, false},
		{[]string{"2019", "vista"}, nil, false},
	} {
		got, err := c.merge(Choice{Windows: tc.ask}, true)
		if (err == nil) != tc.ok || tc.ok && !slices.Equal(got.Windows, tc.want) {
			t.Errorf("Merge(%v) = %v, %v", tc.ask, got.Windows, err)
		}
	}
}

// TestMergeSettings changes each setting of a cluster that exists.
func TestMergeSettings(t *testing.T) {
	const taint = "os=windows:NoSchedule"
	etcd := config.Datastore{Endpoints: []string{"https://etcd:2379"}, CAFile: "/ca.crt"}
	other := config.Datastore{Endpoints: []string{"https://other:2379"}, CAFile: "/ca.crt"}
	for name, tc := range map[string]struct {
		have    Config
		asked   Choice
		running string // in the error; "" is none
		stopped string
	}{
		"nothing":    {},
		"same taint": {have: Config{WindowsTaint: taint}, asked: Choice{WindowsTaint: new(taint)}},
		"no taint before": {asked: Choice{WindowsTaint: new("os=windows:NoSchedule")},
			running: "--windows-taint is none, not os=windows:NoSchedule: ", stopped: "--windows-taint is none"},
		"no taint any more": {have: Config{WindowsTaint: "os=windows:NoSchedule"}, asked: Choice{WindowsTaint: new("")},
			running: "--windows-taint is os=windows:NoSchedule, not none", stopped: "--windows-taint"},
		"network of old":  {asked: Choice{NetworkMode: new(agent.L2Bridge)}},
		"default network": {have: Config{NetworkMode: agent.VXLAN}, asked: Choice{NetworkMode: new(agent.VXLAN)}},
		"other network": {have: Config{NetworkMode: agent.VXLAN}, asked: Choice{NetworkMode: new(agent.L2Bridge)},
			running: "--network is vxlan, not l2bridge", stopped: "--network is vxlan, not l2bridge"},
		"admission as it is": {asked: Choice{Admission: new(policy.AdmissionEnforce)}},
		"admission": {asked: Choice{Admission: new(policy.AdmissionWarn)},
			running: "run 'mullion stop --name x' first, and then 'mullion up --name x --admission warn'"},
		"admission without webhooks": {have: Config{NoAdmission: true},
			asked:   Choice{Admission: new(policy.AdmissionOff)},
			running: "made with --no-admission", stopped: "made with --no-admission"},
		"no webhooks any more": {asked: Choice{NoAdmission: new(true)}, running: "--no-admission is false, not true",
			stopped: "--no-admission is false"},
		"no metrics any more": {asked: Choice{NoMetrics: new(true)}, running: "--no-metrics is false, not true",
			stopped: "--no-metrics is false, not true"},
		"no policies any more": {asked: Choice{NetworkPolicy: new(false)},
			running: "run 'mullion stop --name x' first"},
		"webhooks later": {have: Config{NoAdmission: true}, asked: Choice{NoAdmission: new(false)},
			running: "--no-admission is true, not false", stopped: "--no-admission is true"},
		"same size": {have: Config{Size: Size{CPUs: 2, Memory: "4Gi"}},
			asked: Choice{CPUs: new(2), Memory: new("4096Mi")}},
		"more memory": {asked: Choice{Memory: new("4Gi")},
			running: "--memory is none, not 4Gi: run 'mullion stop --name x'"},
		"fewer CPUs": {have: Config{Size: Size{CPUs: 2}}, asked: Choice{CPUs: new(1)},
			running: "--cpus is 2, not 1: run"},
		"too small": {asked: Choice{Memory: new("64Mi")}, running: "a host needs 1Gi", stopped: "a host needs 1Gi"},
		"no class any more": {asked: Choice{NoStorage: new(true)}, running: "--no-storage is false, not true",
			stopped: "--no-storage is false"},
		"no class before": {have: Config{NoStorage: true}, asked: Choice{NoStorage: new(true)}},
		"a class later": {have: Config{NoStorage: true}, asked: Choice{NoStorage: new(false)},
			running: "run 'mullion stop --name x' first, and then 'mullion up --name x --no-storage=false'"},
		"same sizes": {have: Config{Windows: []string{"2019"},
			Sizes: map[string]Size{"win-1": {CPUs: 1, Memory: "2Gi"}}},
			asked: Choice{Sizes: map[string]Size{"win-1": {CPUs: 1, Memory: "2048Mi"}}}},
		"another size": {have: Config{Windows: []string{"2019"}},
			asked:   Choice{Sizes: map[string]Size{"win-1": {CPUs: 1}}},
			running: "the size of win-1 is as the other hosts, not cpus 1: run 'mullion stop --name x' first"},
		"a size of no host": {asked: Choice{Sizes: map[string]Size{"win-1": {CPUs: 1}}},
			running: "sizes names win-1: there is no such host", stopped: "there is no such host"},
		"a size of a new host": {asked: Choice{Windows: Builds{"2019"}, Sizes: map[string]Size{"win-1": {CPUs: 1}}}},
		"same etcd":            {have: Config{Datastore: etcd}, asked: Choice{Datastore: &etcd}},
		"etcd later": {asked: Choice{Datastore: &etcd},
			running: "--datastore-endpoints is its own etcd, not the etcd at https://etcd:2379",
			stopped: "its own etcd"},
		"other etcd": {have: Config{Datastore: etcd}, asked: Choice{Datastore: &other},
			running: "is the etcd at https://etcd:2379, not the etcd at https://other:2379",
			stopped: "https://other:2379"},
		"two at once": {asked: Choice{NoAdmission: new(true), WindowsTaint: new("os=windows:NoSchedule")},
			running: "not os=windows:NoSchedule: nodes get it when they join; --no-admission",
			stopped: "--no-admission"},
	} {
		for running, want := range map[bool]string{true: tc.running, false: tc.stopped} {
			tc.have.APIVersion, tc.have.Name = apiVersion, "x"
			got, err := tc.have.merge(tc.asked, running)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s, running: %t: %v, want %q", name, running, err, want)
			}
			if a := tc.asked.Admission; err == nil && a != nil && got.Admits() != *a {
				t.Errorf("%s: admission is %s", name, got.Admits())
			}
		}
	}
}

// TestWorkers: Linux workers can be added, not removed.
func TestWorkers(t *testing.T) {
	has := Config{APIVersion: apiVersion, Name: "x", Windows: []string{"2019"}, Linux: 2}
	for _, tc := range []struct {
		asked *int
		want  int // -1 is an error
	}{{nil, 2}, {new(2), 2}, {new(3), 3}, {new(1), -1}, {new(0), -1}, {new(1000), -1}} {
		got, err := has.merge(Choice{Linux: tc.asked}, true)
		if (err != nil) != (tc.want < 0) || err == nil && got.Linux != tc.want {
			t.Errorf("%v became %d, %v, want %d", tc.asked, got.Linux, err, tc.want)
		}
	}
	for _, asked := range []*int{nil, new(0), new(3), new(-1)} {
		want := DefaultLinux
		if asked != nil {
			want = *asked
		}
		got, err := create(Layout{t.TempDir(), "x"}, Choice{Windows: []string{"2019"}, Linux: asked},
			func(Config) error { return nil })
		if (err == nil) != (want >= 0) || err == nil && got.Linux != want {
			t.Errorf("a new cluster has %d workers, %v, want %d", got.Linux, err, want)
		}
	}
	// Overlays have workers, too.
	free := func(Config) error { return nil }
	got, err := create(Layout{t.TempDir(), "x"}, Choice{NetworkMode: new(agent.VXLAN)}, free)
	if err != nil || got.Linux != DefaultLinux {
		t.Errorf("with an overlay: %d workers, %v", got.Linux, err)
	}
	plan, err := Describe(Layout{"/data", "x"}, Config{
		APIVersion: apiVersion, Name: "x", NetworkMode: agent.VXLAN, Linux: 3, Removed: []string{"linux-1"},
	}, "/bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range plan.Nodes {
		if c := n.Document.(linuxhost.Config); c.Network != agent.VXLAN || !c.PodGateway {
			t.Errorf("%s: network %s, gateway %v", n.Name, c.Network, c.PodGateway)
		}
	}
	for name, want := range map[string]bool{"win-1": true, "linux-2": true, "linux-3": false, "server": false} {
		if IsNode(has, name) != want {
			t.Errorf("IsNode(%s) is %v", name, !want)
		}
	}
}

// TestDatastore: a datastore that cannot be used is refused before anything is
// written.
func TestDatastore(t *testing.T) {
	for _, bad := range []config.Datastore{{Endpoints: []string{"http://etcd:2379"}},
		{Endpoints: []string{"https://etcd:2379"}}, {CAFile: "/ca.crt"}} {
		layout := Layout{DataDir: t.TempDir(), Name: "x"}
		if _, err := create(layout, Choice{Datastore: &bad}, func(Config) error { return nil }); err == nil ||
			!strings.Contains(err.Error(), "datastore") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestNetworksOfClustersDoNotOverlap(t *testing.T) {
	for i := range maxIndex + 1 {
		n := Network{i}
		all := []string{}
		for j := range maxIndex + 1 {
			m := Network{j}
			for _, a := range []struct {
				name string
				over bool
			}{
				{"nodes", i != j && n.nodes().Overlaps(m.nodes())},
				{"pods", i != j && n.pods().Overlaps(m.pods())},
				{"services", i != j && n.services().Overlaps(m.services())},
				{"pods and services", n.pods().Overlaps(m.services())},
				{"pods and nodes", n.pods().Overlaps(m.nodes())},
				{"services and nodes", n.services().Overlaps(m.nodes())},
			} {
				if a.over {
					all = append(all, a.name)
				}
			}
		}
		if len(all) > 0 {
			t.Fatalf("cluster %d overlaps: %v", i, all)
		}
		if last := n.node(maxNodes - 1); !n.nodes().Contains(last) || last == n.router() {
			t.Errorf("last node %s of %s", last, n.nodes())
		}
	}
	if n := (Network{}); n.APIServer() != "https://10.89.0.1:6443" || n.dns().String() != "10.96.0.10" {
		t.Errorf("first cluster: %s, DNS %s", n.APIServer(), n.dns())
	}
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{"default": true, "ci-1": true, "a": true, "": false, "A": false, "a-": false,
		"1a": false, "../x": false, "averyveryverylongname": false, "a_b": false} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
}
