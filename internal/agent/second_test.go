// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/hns/emul"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// withSecond makes a configuration one of a cluster with two address families.
func withSecond(c Config) Config {
	c.Node.SecondAddress = netip.MustParseAddr("fd00:10:89::11")
	c.Cluster.Second = Second{
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
			r.cfg = withSecond(r.cfg)
			if err := r.cfg.Validate(); err != nil {
				t.Fatal(err)
			}
			r.api.setSecond("fd00:10:244:3::/64")
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
			r.api.setSecond("fd00:10:244:9::/64")
			r.agent.queried = r.now.Add(-clusterEvery)
			r.passes(2)
			if got := r.hns.changes(); (got != "") != (tt.plane == two) {
				t.Errorf("after another range of IPv6:\n%s", got)
			}
		})
	}
}

func TestSecondCNI(t *testing.T) {
	f, err := cniFile(withSecond(testConfig()), prefixes("10.244.3.0/24", "fd00:10:244:3::/64"), nil)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "cni-dual.json", f.Content)
}

func TestNodeAddresses(t *testing.T) {
	c := withSecond(testConfig())
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

func TestSecondRefused(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"cluster.second, with":              func(c *Config) { c.Cluster.Second = Second{} },
		"cluster.second.podCIDR":            func(c *Config) { c.Cluster.Second.PodCIDR = netip.Prefix{} },
		"cluster.second.serviceCIDR":        func(c *Config) { c.Cluster.Second.ServiceCIDR = c.Cluster.ServiceCIDR },
		"node.secondAddress is missing":     func(c *Config) { c.Node.SecondAddress = netip.Addr{} },
		"other nodes can reach":             func(c *Config) { c.Node.SecondAddress = netip.MustParseAddr("fe80::1") },
		"want IPv4 beside cluster.second":   func(c *Config) { c.Node.Address = netip.MustParseAddr("fd00::1") },
		"network.mode vxlan has one family": func(c *Config) { c.Network.Mode = VXLAN },
	} {
		c := withSecond(testConfig())
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
}
