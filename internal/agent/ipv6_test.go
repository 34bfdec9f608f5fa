// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/hns/emul"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// withIPv6 makes a configuration one of a cluster with two address families.
func withIPv6(c Config) Config {
	c.Node.IPv6Address = netip.MustParseAddr("fd00:10:89::11")
	c.Cluster.IPv6 = ipv6.Plan{
		PodCIDR:     netip.MustParsePrefix("fd00:10:244::/48"),
		ServiceCIDR: netip.MustParsePrefix("fd00:10:96::/112"),
		NodeCIDR:    netip.MustParsePrefix("fd00:10:89::/64"),
	}
	c.Network.Mode = L2Bridge
	return c
}

// TestTwoFamilies: the pods of a node have an address of each of its ranges where HNS has two families, and what the
// node is told is the same on both.
func TestTwoFamilies(t *testing.T) {
	const one = `network cbr0 L2Bridge [{10.244.3.0/24 10.244.3.1 0 0}]
endpoint cbr0_ep [10.244.3.2/24] namespace "" host true
`
	const two = `network cbr0 L2Bridge [{10.244.3.0/24 10.244.3.1 0 0} {fd00:10:244:3::/64 fd00:10:244:3::1 0 0}]
endpoint cbr0_ep [10.244.3.2/24 fd00:10:244:3::2/64] namespace "" host true
`
	for _, tt := range []struct {
		name   string
		build  int
		plugin string
		plane  string
	}{
		{"2019", 17763, `"win-bridge"`, one},
		{"2022", 20348, `"mullion-bridge"`, two},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.hns = newHNSOf(t, emul.VersionOf(tt.build))
			r.cfg = withIPv6(r.cfg)
			if err := r.cfg.Validate(); err != nil {
				t.Fatal(err)
			}
			r.api.setIPv6("fd00:10:244:3::/64")
			r.api.setNode("10.244.3.0/24", true)
			r.restartAgent()
			if !r.passes(6) {
				t.Fatalf("not complete: %s", r.agent.status.Message)
			}
			if got := r.hns.plane.Dump(); got != tt.plane {
				t.Errorf("data plane:\n%s\nwant\n%s", got, tt.plane)
			}
			if !strings.Contains(r.read(cniConf), `"type": `+tt.plugin) {
				t.Errorf("CNI configuration:\n%s", r.read(cniConf))
			}
			if proxy := r.read(proxyConfig); !strings.Contains(proxy, "clusterCIDR: 10.244.0.0/16,fd00:10:244::/48\n") {
				t.Errorf("kube-proxy:\n%s", proxy)
			}
			if argv := kubeletArgv(r.cfg); !slices.Contains(argv, "--node-ip=10.89.0.11,fd00:10:89::11") {
				t.Errorf("kubelet: %q", argv)
			}
			r.hns.changes()
			r.restartAgent()
			if !r.passes(3) || r.hns.changes() != "" {
				t.Error("a pass over a complete node changed something")
			}
			// A range of either family that is another one replaces the network.
			r.api.setIPv6("fd00:10:244:9::/64")
			r.agent.queried = r.now.Add(-clusterEvery)
			r.passes(2)
			if got := r.hns.changes(); (got != "") != (tt.plane == two) {
				t.Errorf("after another range of IPv6:\n%s", got)
			}
		})
	}
}

func TestDualCNI(t *testing.T) {
	f, err := cniFile(withIPv6(testConfig()), prefixes("10.244.3.0/24", "fd00:10:244:3::/64"), nil)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "cni-dual.json", f.Content)
}

func TestNodeAddresses(t *testing.T) {
	c := withIPv6(testConfig())
	for _, tt := range []struct {
		ranges []netip.Prefix
		want   string
	}{
		{prefixes("10.244.3.0/24"), "[10.89.0.11 10.244.3.1 10.244.3.2]"},
		{prefixes("10.244.3.0/24", "fd00:10:244:3::/64"),
			"[10.89.0.11 10.244.3.1 10.244.3.2 fd00:10:89::11 fd00:10:244:3::1 fd00:10:244:3::2]"},
	} {
		if got := fmt.Sprint(nodeAddresses(c, tt.ranges)); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.ranges, got, tt.want)
		}
	}
}

func TestIPv6Refused(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"cluster.ipv6, with":                func(c *Config) { c.Cluster.IPv6 = ipv6.Plan{} },
		"cluster.ipv6.podCIDR":              func(c *Config) { c.Cluster.IPv6.PodCIDR = netip.Prefix{} },
		"cluster.ipv6.serviceCIDR":          func(c *Config) { c.Cluster.IPv6.ServiceCIDR = c.Cluster.ServiceCIDR },
		"node.ipv6Address is missing":       func(c *Config) { c.Node.IPv6Address = netip.Addr{} },
		"other nodes can reach":             func(c *Config) { c.Node.IPv6Address = netip.MustParseAddr("fe80::1") },
		"want IPv4 beside cluster.ipv6":     func(c *Config) { c.Node.Address = netip.MustParseAddr("fd00::1") },
		"network.mode vxlan has one family": func(c *Config) { c.Network.Mode = VXLAN },
	} {
		c := withIPv6(testConfig())
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
}

// TestFormerNames reads agent.json with the names of an earlier version.
func TestFormerNames(t *testing.T) {
	former := strings.NewReplacer(
		`"address": "10.89.0.11"`, `"address": "10.89.0.11", "secondAddress": "fd00:10:89::11"`,
		`"domain"`, `"second": {"podCIDR": "fd00:10:244::/48", "serviceCIDR": "fd00:10:96::/112",
			"nodeCIDR": "fd00:10:89::/64"}, "domain"`).Replace(goodConfig)
	c, err := durable.ParseDocument([]byte(former), (*Config).complete)
	if err != nil {
		t.Fatal(err)
	}
	want := withIPv6(c)
	if c.Cluster.IPv6 != want.Cluster.IPv6 || c.Node.IPv6Address != want.Node.IPv6Address || len(c.Renamed) != 2 {
		t.Errorf("%+v, renamed %q", c, c.Renamed)
	}
	text, err := durable.EncodeDocument(c)
	if err != nil || strings.Contains(string(text), "second") {
		t.Errorf("%v\n%s", err, text)
	}
}
