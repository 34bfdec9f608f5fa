// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/policy"
)

// TestCreateChoosesTheSmallestFreeIndex creates clusters beside others: those of
// the same data directory, and a running one of another.
func TestCreateChoosesTheSmallestFreeIndex(t *testing.T) {
	dir := t.TempDir()
	const elsewhere = 2 // the index of the running cluster
	create := func(name string, want int) {
		t.Helper()
		l := Layout{dir, name}
		c, err := create(l, Choice{Windows: []string{"ltsc2022"}}, func(index int) bool { return index == elsewhere })
		if err != nil || c.Index != want {
			t.Fatalf("index %d, %v, want %d", c.Index, err, want)
		}
		if err := errors.Join(os.MkdirAll(l.Dir(), 0o700), c.save(l)); err != nil {
			t.Fatal(err)
		}
	}
	create("a", 0)
	create("b", 1)
	create("c", 3)
	if err := os.RemoveAll(Layout{dir, "b"}.Dir()); err != nil {
		t.Fatal(err)
	}
	create("d", 1) // which b left
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
	c := Config{Name: "x", Windows: []string{"2019", "2022"}}
	for _, tc := range []struct {
		ask, want []string
		ok        bool
	}{
		{nil, []string{"2019", "2022"}, true},
		{[]string{"1809", "ltsc2022"}, []string{"1809", "ltsc2022"}, true},
		{[]string{"2019", "2022", "2025"}, []string{"2019", "2022", "2025"}, true},
		{[]string{"2019"}, nil, false},
		{[]string{"2022", "2019"}, nil, false},
		{[]string{"2019", "vista"}, nil, false},
	} {
		got, err := c.merge(Choice{Windows: tc.ask})
		if (err == nil) != tc.ok || tc.ok && !slices.Equal(got.Windows, tc.want) {
			t.Errorf("Merge(%v) = %v, %v", tc.ask, got.Windows, err)
		}
	}
}

// TestMergeAdmission: what happens to findings stays as it was chosen.
func TestMergeAdmission(t *testing.T) {
	for _, tc := range []struct {
		have  Config
		asked policy.Admission
		ok    bool
	}{
		{have: Config{}, ok: true},
		{have: Config{}, asked: policy.AdmissionEnforce, ok: true},
		{have: Config{}, asked: policy.AdmissionWarn},
		{have: Config{Admission: policy.AdmissionWarn}, ok: true},
		{have: Config{Admission: policy.AdmissionWarn}, asked: policy.AdmissionWarn, ok: true},
		{have: Config{Admission: policy.AdmissionWarn}, asked: policy.AdmissionEnforce},
		{have: Config{NoAdmission: true}, ok: true},
		{have: Config{NoAdmission: true}, asked: policy.AdmissionOff},
	} {
		got, err := tc.have.merge(Choice{Admission: tc.asked})
		if (err == nil) != tc.ok || tc.ok && !reflect.DeepEqual(got, tc.have) {
			t.Errorf("%+v asked for %q: %+v, %v", tc.have, tc.asked, got, err)
		}
	}
}

// TestWorkers: Linux workers can be added, not removed.
func TestWorkers(t *testing.T) {
	has := Config{Name: "x", Windows: []string{"2019"}, Linux: 2}
	for _, tc := range []struct {
		asked *int
		want  int // -1 is an error
	}{{nil, 2}, {new(2), 2}, {new(3), 3}, {new(1), -1}, {new(0), -1}, {new(1000), -1}} {
		got, err := has.merge(Choice{Linux: tc.asked})
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
			func(int) bool { return false })
		if (err == nil) != (want >= 0) || err == nil && got.Linux != want {
			t.Errorf("a new cluster has %d workers, %v, want %d", got.Linux, err, want)
		}
	}
	for _, tc := range []struct {
		asked *int
		ok    bool
	}{{nil, true}, {new(0), true}, {new(1), false}} {
		got, err := create(Layout{t.TempDir(), "x"}, Choice{NetworkMode: agent.VXLAN, Linux: tc.asked},
			func(int) bool { return false })
		if (err == nil) != tc.ok || got.Linux != 0 {
			t.Errorf("with an overlay: %d workers, %v", got.Linux, err)
		}
	}
	for name, want := range map[string]bool{"win-1": true, "linux-2": true, "linux-3": false, "server": false} {
		if IsNode(has, name) != want {
			t.Errorf("IsNode(%s) is %v", name, !want)
		}
	}
}

// TestMergeNetwork: a cluster keeps the network that it was made with; one from before there was a choice has l2bridge.
func TestMergeNetwork(t *testing.T) {
	for _, tc := range []struct {
		have, asked agent.NetworkMode
		ok          bool
	}{
		{"", "", true},
		{"", agent.L2Bridge, true},
		{"", agent.VXLAN, false},
		{agent.L2Bridge, agent.L2Bridge, true},
		{agent.VXLAN, "", true},
		{agent.VXLAN, agent.VXLAN, true},
		{agent.VXLAN, agent.L2Bridge, false},
		{agent.HostGateway, agent.VXLAN, false},
	} {
		have := Config{Name: "x", NetworkMode: tc.have}
		got, err := have.merge(Choice{NetworkMode: tc.asked})
		if (err == nil) != tc.ok || tc.ok && got.Mode() != have.Mode() {
			t.Errorf("%q asked for %q: %q, %v", tc.have, tc.asked, got.Mode(), err)
		}
	}
}

// TestDatastore: a datastore that cannot be used is refused before anything is
// written, and a cluster keeps the one it has.
func TestDatastore(t *testing.T) {
	external := config.Datastore{Endpoints: []string{"https://etcd:2379"}, CAFile: "/ca.crt"}
	for _, tc := range []struct {
		has, asked config.Datastore
		want       string // in the error
	}{
		{config.Datastore{}, config.Datastore{}, ""},
		{external, config.Datastore{}, ""},
		{external, external, ""},
		{config.Datastore{}, external, "its own etcd"},
		{external, config.Datastore{Endpoints: []string{"https://other:2379"}, CAFile: "/ca.crt"},
			"the etcd at https://etcd:2379"},
	} {
		_, err := Config{Name: "x", Datastore: tc.has}.merge(Choice{Datastore: tc.asked})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, asked for %v: %v, want %q", tc.has, tc.asked, err, tc.want)
		}
	}
	for _, bad := range []config.Datastore{{Endpoints: []string{"http://etcd:2379"}},
		{Endpoints: []string{"https://etcd:2379"}}, {CAFile: "/ca.crt"}} {
		layout := Layout{DataDir: t.TempDir(), Name: "x"}
		if _, err := create(layout, Choice{Datastore: bad}, func(int) bool { return false }); err == nil ||
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
