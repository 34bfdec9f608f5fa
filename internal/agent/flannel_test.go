// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alexflint/go-filemutex"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
)

// flannelRig is a rig whose flanneld makes the network as the real one does, and whose host-local keeps
// addresses as the real one does.
type flannelRig struct {
	*rig
	calls []string // of host-local
}

func newFlannelRig(t *testing.T, mode NetworkMode) *flannelRig {
	t.Helper()
	r := &flannelRig{rig: newRig(t)}
	r.cfg.Network = Network{Mode: mode, Name: mode.networkName()}
	r.scm.OnStart = func(name string) error {
		switch name {
		case "kubelet":
			return r.join()
		case "flanneld":
			return r.startFlannel()
		}
		return nil
	}
	r.restartAgent()
	return r
}

// restartAgent replaces the agent, as that of rig.
func (r *flannelRig) restartAgent() {
	r.rig.restartAgent()
	r.agent.Plugins = hostLocal{r, &version.PluginDecoder{}}
}

// startFlannel makes the network for the range that the node has, and removes that of another range.
func (r *flannelRig) startFlannel() error {
	prefix := netip.MustParsePrefix(r.api.podCIDR)
	gateway := prefix.Addr().Next()
	list, err := hnsClient{r.hns.Service}.networks(r.t.Context())
	if err != nil {
		return err
	}
	for _, n := range list {
		if n.Subnets[0].AddressPrefix == prefix.String() {
			return nil
		}
		if err := (hnsClient{r.hns.Service}).deleteNetwork(r.t.Context(), n.ID); err != nil {
			return err
		}
	}
	typ, policies := "L2Bridge", ""
	if r.cfg.Network.Mode == VXLAN {
		typ, policies = "Overlay", `,"Policies":[{"Type":"VSID","Settings":{"IsolationId":4096}}]`
	}
	_, err = r.hns.Create(r.t.Context(), hns.Network, schema.GUID{}, schema.GUID{}, fmt.Sprintf(`{"Name":%q,"Type":%q,
	  "Flags":8,"SchemaVersion":{"Major":2},"Ipams":[{"Subnets":[{"IpAddressPrefix":%q%s,
	  "Routes":[{"NextHop":%q,"DestinationPrefix":"0.0.0.0/0"}]}]}]}`, r.cfg.Network.Name, typ, prefix, policies,
		gateway))
	r.write(flannelSubnetFile, fmt.Sprintf("FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=%s/%d\nFLANNEL_MTU=1450\n",
		gateway, prefix.Bits()))
	return err
}

// hostLocal is an invoke.Exec with one plugin.
type hostLocal struct {
	r *flannelRig
	*version.PluginDecoder
}

func (hostLocal) FindInPath(string, []string) (string, error) { return "", errors.New("not used") }

func (h hostLocal) ExecPlugin(_ context.Context, exe string, conf []byte, env []string) ([]byte, error) {
	if exe != cniBinDir+`\host-local.exe` {
		return nil, fmt.Errorf("unknown plugin %s", exe)
	}
	var c cniConfiguration
	if err := json.Unmarshal(conf, &c); err != nil {
		return nil, err
	}
	dir := h.r.disk.Path(c.IPAM.DataDir + `\` + c.Name)
	if slices.Contains(env, "CNI_COMMAND=DEL") {
		h.r.calls = append(h.r.calls, "DEL")
		return nil, os.RemoveAll(dir)
	}
	a := c.IPAM.Ranges[0][0].Subnet.Addr().Next().Next()
	h.r.calls = append(h.r.calls, "ADD "+a.String())
	h.r.write(c.IPAM.DataDir+`\`+c.Name+`\`+a.String(), sourceVIPContainer+"\r\n"+sourceVIPInterface)
	return fmt.Appendf(nil, `{"cniVersion":"1.0.0","ips":[{"address":"%s/24"}]}`, a), nil
}

var _ invoke.Exec = hostLocal{}

// TestFlannelBeforeEverything: the network comes first, then the source VIP, then pods and kube-proxy.
func TestFlannelBeforeEverything(t *testing.T) {
	for _, mode := range []NetworkMode{HostGateway, VXLAN} {
		t.Run(string(mode), func(t *testing.T) {
			r := newFlannelRig(t, mode)
			r.api.setNode("10.244.3.0/24", true)
			start := r.scm.OnStart
			r.scm.OnStart = func(name string) error {
				if name == "flanneld" {
					return nil // it hangs
				}
				return start(name)
			}
			r.passes(4)
			if r.exists(cniConf) || strings.Contains(r.scm.Dump(), "kube-proxy") || len(r.calls) > 0 {
				t.Error("something was done before the network was there")
			}
			if !strings.Contains(r.agent.status.Message, "waiting for flanneld") {
				t.Errorf("message %q", r.agent.status.Message)
			}
			if err := r.startFlannel(); err != nil {
				t.Fatal(err)
			}
			if !r.passes(3) {
				t.Errorf("not complete: %s", r.agent.status.Message)
			}
			want := ""
			if mode == VXLAN {
				want = "10.244.3.2"
			}
			r.wantStatus(func(s Status) bool {
				return s.Mode == mode && s.SourceVIP == want && s.Flannel.State == "running" && s.Healthy()
			}, "complete")
			if got := strings.Contains(r.read(proxyConfig), "sourceVip: 10.244.3.2"); got != (mode == VXLAN) {
				t.Errorf("kube-proxy's configuration:\n%s", r.read(proxyConfig))
			}
		})
	}
}

func upFlannel(t *testing.T) *flannelRig {
	t.Helper()
	r := newFlannelRig(t, VXLAN)
	r.api.setNode("10.244.3.0/24", true)
	if !r.passes(6) {
		t.Fatalf("the node did not come up: %s", r.agent.status.Message)
	}
	r.scm.Dump()
	return r
}

// TestSourceVIPStays: an agent that starts again, on a node that was rebooted, finds the address that it reserved.
func TestSourceVIPStays(t *testing.T) {
	r := upFlannel(t)
	r.restartAgent()
	if !r.passes(3) || r.scm.Dump() != "" {
		t.Error("a pass over a complete node changed something")
	}
	if got := strings.Join(r.calls, ", "); got != "ADD 10.244.3.2" {
		t.Errorf("host-local was asked: %s", got)
	}
}

// TestFlannelFollowsTheNode: flanneld starts again when the node is another one or has another range, and only then;
// the source VIP of the other range is given back.
func TestFlannelFollowsTheNode(t *testing.T) {
	r := upFlannel(t)
	r.api.setNode("10.244.9.0/24", true)
	r.now = r.now.Add(clusterEvery)
	r.passes(4)
	if got := r.scm.Dump(); got != "stop flanneld\nstart flanneld\nstop kube-proxy\nstart kube-proxy" {
		t.Errorf("services:\n%s", got)
	}
	if got := strings.Join(r.calls, ", "); got != "ADD 10.244.3.2, DEL, ADD 10.244.9.2" {
		t.Errorf("host-local was asked: %s", got)
	}
	if !strings.Contains(r.read(proxyConfig), "sourceVip: 10.244.9.2") {
		t.Errorf("kube-proxy's configuration:\n%s", r.read(proxyConfig))
	}
	r.api.setUID("another")
	r.now = r.now.Add(clusterEvery)
	r.passes(4)
	if got := r.scm.Dump(); got != "stop flanneld\nstart flanneld" {
		t.Errorf("a node of the same name: services:\n%s", got)
	}
}

// TestFlannelAway: while flanneld is down, kube-proxy is kept running.
func TestFlannelAway(t *testing.T) {
	r := upFlannel(t)
	r.scm.OnStart = func(name string) error {
		if name == "flanneld" {
			return errors.New("it does not start")
		}
		return nil
	}
	for _, name := range []string{"flanneld", "kube-proxy"} {
		if err := r.scm.Kill(name); err != nil {
			t.Fatal(err)
		}
	}
	r.now = r.now.Add(clusterEvery)
	r.passes(2)
	if got := r.scm.Dump(); !strings.Contains(got, "start kube-proxy") {
		t.Errorf("services:\n%s", got)
	}
	r.wantStatus(func(s Status) bool { return strings.Contains(s.Message, "flanneld") }, "flanneld down")
}

func TestFlannelSubnet(t *testing.T) {
	for content, want := range map[string]string{
		"FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.3.1/24\n": "10.244.3.0/24",
		"FLANNEL_SUBNET=10.244.3.1/24\r\nFLANNEL_MTU=1450\r\n":          "10.244.3.0/24",
		"FLANNEL_SUBNET=": "invalid Prefix",
		"":                "invalid Prefix",
	} {
		if got := FlannelSubnet([]byte(content)); got.String() != want {
			t.Errorf("%q: %s, want %s", content, got, want)
		}
	}
}

// TestSourceVIPs: files of pods, and other files, are left alone.
func TestSourceVIPs(t *testing.T) {
	d := Disk{Root: t.TempDir()}
	dir := d.Path(ipamDir + `\x`)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"10.0.0.2": "kube-proxy\r\nsource-vip", "10.0.0.3": "5f0c\r\neth0", "10.0.0.4": "kube-proxy", "lock": "",
		"last_reserved_ip.0": "10.0.0.3",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := sourceVIPs(t.Context(), d, "x")
	if err != nil || fmt.Sprint(got) != "[10.0.0.2]" {
		t.Errorf("%v, %v", got, err)
	}
	// While a plugin has the lock no file is opened.
	plugin, err := filemutex.New(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := plugin.Lock(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*lockEvery)
	defer cancel()
	if got, err := sourceVIPs(ctx, d, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("beside a plugin: %v, %v", got, err)
	}
	if err := plugin.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := sourceVIPs(t.Context(), d, "x"); err != nil || len(got) != 1 {
		t.Errorf("after the plugin: %v, %v", got, err)
	}
	if got, err := sourceVIPs(t.Context(), d, "absent"); err != nil || got != nil {
		t.Errorf("no directory: %v, %v", got, err)
	}
}

func TestParseNetworkMode(t *testing.T) {
	for s, want := range map[string]NetworkMode{"": L2Bridge, "l2bridge": L2Bridge, "host-gw": HostGateway,
		"vxlan": VXLAN} {
		if got, err := ParseNetworkMode(s); err != nil || got != want {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
	if _, err := ParseNetworkMode("VXLAN"); err == nil || !strings.Contains(err.Error(), "l2bridge, host-gw, vxlan") {
		t.Errorf("error %v", err)
	}
}
