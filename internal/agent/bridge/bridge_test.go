// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/emul"
	"github.com/mullion-k8s/mullion/internal/hns/hnstest"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// ipam plays an IPAM plugin that gives every pod the same addresses, and counts who has them.
type ipam struct {
	ips  string
	fail string // the command that fails
	held int
	log  []string
}

func (i *ipam) FindInPath(plugin string, _ []string) (string, error) { return plugin, nil }

func (i *ipam) Decode(data []byte) (version.PluginInfo, error) {
	d := version.PluginDecoder{}
	return d.Decode(data)
}

func (i *ipam) ExecPlugin(_ context.Context, _ string, _ []byte, env []string) ([]byte, error) {
	var command string
	for _, e := range env {
		if c, ok := strings.CutPrefix(e, "CNI_COMMAND="); ok {
			command = c
		}
	}
	i.log = append(i.log, command)
	if command == i.fail {
		return nil, errors.New("no more addresses")
	}
	switch command {
	case "ADD":
		i.held++
		return []byte(`{"cniVersion":"1.0.0","ips":[` + i.ips + `]}`), nil
	case "DEL":
		i.held = max(0, i.held-1)
	}
	return nil, nil
}

const (
	twoIPs  = `{"address":"10.244.3.3/24"},{"address":"fd00:10:244:3::3/64"}`
	oneIP   = `{"address":"10.244.3.3/24"}`
	network = `{"Name":"cbr0","Type":"L2Bridge","SchemaVersion":{"Major":2,"Minor":0},
		"Ipams":[{"Type":"Static","Subnets":[
		{"IpAddressPrefix":"10.244.3.0/24","Routes":[{"NextHop":"10.244.3.1","DestinationPrefix":"0.0.0.0/0"}]},
		{"IpAddressPrefix":"fd00:10:244:3::/64","Routes":[{"NextHop":"fd00:10:244:3::1","DestinationPrefix":"::/0"}]}
		]}]}`
	conf = `{"cniVersion":"1.1.0","name":"cbr0","type":"mullion-bridge","apiVersion":2,"loopbackDSR":true,
		"ipMasqNetwork":"10.96.0.0/16","ipam":{"type":"host-local"},"dns":{"domain":"x","search":["never"]},
		"runtimeConfig":{"dns":{"servers":["10.96.0.10"],"searches":["default.svc.cluster.local"]},"portMappings":[
		{"hostPort":8080,"containerPort":80,"protocol":"TCP"},
		{"hostPort":8081,"containerPort":81,"protocol":"udp","hostIP":"10.89.0.11"},
		{"hostPort":8082,"containerPort":82,"protocol":"tcp","hostIP":"fd00:10:89::11"},
		{"hostPort":8083,"containerPort":83,"protocol":"sctp"}]},
		"policies":[
		{"name":"EndpointPolicy","value":{"Type":"OutBoundNAT","Settings":{"Exceptions":["10.244.0.0/16"]}}},
		{"name":"NetworkPolicy","value":{"Type":"OutBoundNAT","Settings":{}}},
		{"name":"EndpointPolicy","value":{"Type":"SDNRoute","Settings":{"DestinationPrefix":"fd00:10:96::/112",
		"NeedEncap":true}}}]}`
)

// rig is the plugin on an emulated HNS with a network and a namespace.
type rig struct {
	*testing.T
	Plugin
	hns  *emul.Service
	ipam *ipam
	out  *bytes.Buffer
	ns   string
	conf string
}

func newRig(t *testing.T, ips string) *rig {
	t.Helper()
	s, err := emul.Open(t.Context(), emul.Config{Dir: filepath.Join(t.TempDir(), "hns"), DataPlane: &hnstest.Plane{},
		Log: slog.New(slog.DiscardHandler), Version: emul.VersionOf(20348)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Create(t.Context(), hns.Network, schema.GUID{}, schema.GUID{}, network); err != nil {
		t.Fatal(err)
	}
	ns, err := s.CreateNamespace(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i, out := &ipam{ips: ips}, &bytes.Buffer{}
	return &rig{T: t, Plugin: Plugin{HNS: s, IPAM: i, Out: out}, hns: s, ipam: i, out: out, ns: ns, conf: conf}
}

func (r *rig) args() *skel.CmdArgs {
	return &skel.CmdArgs{ContainerID: "0123abcd", Netns: r.ns, IfName: "eth0", StdinData: []byte(r.conf)}
}

// add runs ADD and returns what it wrote.
func (r *rig) add() []byte {
	r.Helper()
	r.out.Reset()
	if err := r.Add(r.args()); err != nil {
		r.Fatal(err)
	}
	return slices.Clone(r.out.Bytes())
}

func (r *rig) endpoints() []schema.Endpoint {
	r.Helper()
	list, err := find[schema.Endpoint](r.Context(), r.hns, hns.Endpoint, "Name", "0123abcd_cbr0")
	if err != nil {
		r.Fatal(err)
	}
	return list
}

// TestAddAndDel: the endpoint that HNS gets and the result, in one family and in two; both commands may be repeated.
func TestAddAndDel(t *testing.T) {
	for name, ips := range map[string]string{"one": oneIP, "two": twoIPs} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, ips)
			first := r.add()
			list := r.endpoints()
			if len(list) != 1 || !strings.EqualFold(list[0].HostComputeNamespace, r.ns) {
				t.Fatalf("endpoints %+v", list)
			}
			e := list[0]
			e.ID, e.HostComputeNetwork, e.HostComputeNamespace, e.MacAddress = "", "", "", ""
			doc, err := json.MarshalIndent(e, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			testenv.Golden(t, "endpoint-"+name+".json", append(doc, '\n'))
			result := bytes.ReplaceAll(first, []byte(list[0].MacAddress), []byte("MAC"))
			testenv.Golden(t, "result-"+name+".json", append(result, '\n'))
			if again := r.add(); !bytes.Equal(again, first) || r.ipam.held != 1 {
				t.Errorf("ADD again says %s, IPAM %v", again, r.ipam.log)
			}
			for range 2 {
				if err := r.Del(r.args()); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.endpoints(); len(got) != 0 || r.ipam.held != 0 {
				t.Errorf("after DEL: endpoints %+v, IPAM %v", got, r.ipam.log)
			}
		})
	}
}

// TestAddFails: whatever fails, neither an endpoint nor an address is left, and ADD works afterwards.
func TestAddFails(t *testing.T) {
	for name, breaks := range map[string]func(*rig) (repair func()){
		"IPAM": func(r *rig) func() {
			r.ipam.fail = "ADD"
			return func() { r.ipam.fail = "" }
		},
		"no address": func(r *rig) func() {
			r.ipam.ips = ""
			return func() { r.ipam.ips = twoIPs }
		},
		"an address of another network": func(r *rig) func() {
			r.ipam.ips = `{"address":"192.0.2.1/24"}`
			return func() { r.ipam.ips = twoIPs }
		},
		"no such namespace": func(r *rig) func() {
			was := r.ns
			r.ns = "6e6e0f6c-1111-2222-3333-444444444444"
			return func() { r.ns = was }
		},
		"a policy that is none": func(r *rig) func() {
			r.conf = strings.Replace(conf, `{"Type":"OutBoundNAT","Settings":{"Exceptions":["10.244.0.0/16"]}}`, `5`, 1)
			return func() { r.conf = conf }
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, twoIPs)
			repair := breaks(r)
			if err := r.Add(r.args()); err == nil {
				t.Error("no error")
			}
			if got := r.endpoints(); len(got) != 0 || r.ipam.held != 0 {
				t.Errorf("left: endpoints %+v, IPAM %v", got, r.ipam.log)
			}
			repair()
			r.add()
		})
	}
}

func TestRefused(t *testing.T) {
	for want, change := range map[string][2]string{
		"apiVersion 0: want 2":   {`"apiVersion":2,`, ""},
		"HNS has no network x":   {`"cbr0"`, `"x"`},
		"read the network confi": {`"apiVersion":2`, `"apiVersion":"2"`},
	} {
		r := newRig(t, twoIPs)
		r.conf = strings.Replace(conf, change[0], change[1], 1)
		if err := r.Add(r.args()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestCheck: the endpoint must be there, where it was put, with the addresses that ADD reported.
func TestCheck(t *testing.T) {
	r := newRig(t, twoIPs)
	result := string(r.add())
	r.conf = strings.Replace(conf, `"ipam"`, `"prevResult":`+result+`,"ipam"`, 1)
	if err := r.Check(r.args()); err != nil {
		t.Fatal(err)
	}
	good := r.conf
	r.conf = strings.ReplaceAll(good, "fd00:10:244:3::3/64", "fd00:10:244:3::9/64")
	if err := r.Check(r.args()); err == nil || !strings.Contains(err.Error(), "does not have the address") {
		t.Errorf("another address: %v", err)
	}
	r.conf = conf
	if err := r.Check(r.args()); err == nil || !strings.Contains(err.Error(), "prevResult is missing") {
		t.Errorf("no prevResult: %v", err)
	}
	r.conf = good
	if err := r.Del(r.args()); err != nil {
		t.Fatal(err)
	}
	if err := r.Check(r.args()); err == nil || !strings.Contains(err.Error(), "no endpoint") {
		t.Errorf("after DEL: %v", err)
	}
}

// TestGC removes what no pod has, and leaves the node's own endpoint alone.
func TestGC(t *testing.T) {
	r := newRig(t, twoIPs)
	r.add()
	id := r.endpoints()[0].HostComputeNetwork
	own := `{"Name":"cbr0_ep","HostComputeNetwork":"` + id + `","IpConfigurations":[{"IpAddress":"10.244.3.2"}],
		"SchemaVersion":{"Major":2,"Minor":0}}`
	if _, err := r.hns.Create(t.Context(), hns.Endpoint, schema.GUID{}, schema.GUID{}, own); err != nil {
		t.Fatal(err)
	}
	valid := `"cni.dev/valid-attachments":[{"containerID":"0123abcd","ifname":"eth0"}],"ipam"`
	r.conf = strings.Replace(conf, `"ipam"`, valid, 1)
	if err := r.GC(r.args()); err != nil || len(r.endpoints()) != 1 {
		t.Fatalf("a pod that is there: %v, %+v", err, r.endpoints())
	}
	r.conf = conf
	if err := r.GC(r.args()); err != nil || len(r.endpoints()) != 0 {
		t.Fatalf("a pod that is gone: %v, %+v", err, r.endpoints())
	}
	all, err := find[schema.Endpoint](t.Context(), r.hns, hns.Endpoint, "VirtualNetwork", id)
	if err != nil || len(all) != 1 || all[0].Name != "cbr0_ep" {
		t.Errorf("%v, %+v", err, all)
	}
	if err := r.Status(r.args()); err != nil {
		t.Error(err)
	}
	r.conf = strings.Replace(conf, `"cbr0"`, `"x"`, 1)
	if err := r.Status(r.args()); err == nil {
		t.Error("available without its network")
	}
}

// FuzzConfig: no configuration makes the plugin panic, and an endpoint has no other addresses than those of the IPAM.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(conf))
	f.Add([]byte(`{"apiVersion":2,"policies":[{"name":"endpointpolicy"}]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		c, err := parse(content)
		if err != nil {
			return
		}
		e, err := describe(c, schema.Network{}, "x", nil)
		if err == nil && len(e.IPConfigurations) != 0 {
			t.Errorf("%+v", e)
		}
	})
}
