// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"net/netip"
	"testing"

	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
)

// TestIPv6 plans every cluster that a machine can hold with two address families: no range is another's.
func TestIPv6(t *testing.T) {
	var taken []netip.Prefix
	for index := range maxIndex + 1 {
		n, plan := Network{index}, Network{index}.ipv6()
		for _, r := range []netip.Prefix{plan.NodeCIDR, plan.PodCIDR, plan.ServiceCIDR, n.loadBalancers6()} {
			for _, other := range taken {
				if r.Overlaps(other) {
					t.Errorf("cluster %d: %s overlaps %s", index, r, other)
				}
			}
			taken = append(taken, r)
		}
	}
	want := ipv6.Plan{
		NodeCIDR:    netip.MustParsePrefix("fd00:10:89:3::/64"),
		PodCIDR:     netip.MustParsePrefix("fd00:10:241::/48"),
		ServiceCIDR: netip.MustParsePrefix("fd00:10:99::/112"),
	}
	if got, pool := (Network{3}).ipv6(), (Network{3}).loadBalancers6(); got != want ||
		pool.String() != "fd00:10:90:3::/112" {
		t.Errorf("cluster 3: %v, want %v; pool %s", got, want, pool)
	}
}

// TestDescribeTwoFamilies: the control plane, the network and each host are told the same.
func TestDescribeTwoFamilies(t *testing.T) {
	c := Config{APIVersion: apiVersion, Name: "demo", Index: 1, Windows: []string{"2019", "2025"}, Linux: 1,
		IPFamily: dualStack}
	p, err := Describe(Layout{"/var/lib/mullion", "demo"}, c, "/opt/mullion/bin")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Server.Validate(); err != nil {
		t.Errorf("server: %v", err)
	}
	if p.Server.IPv6 != c.Network().ipv6() || p.Fabric.IPv6 != c.Network().ipv6() {
		t.Errorf("server %v, fabric %v, want %v", p.Server.IPv6, p.Fabric.IPv6, c.Network().ipv6())
	}
	want := map[string]string{
		"win-1": "fd00:10:89:1::10/64", "win-2": "fd00:10:89:1::11/64", "linux-1": "fd00:10:89:1::110/64",
	}
	for _, n := range p.Nodes {
		if err := n.Document.(interface{ Validate() error }).Validate(); err != nil {
			t.Errorf("%s: %v", n.Name, err)
		}
		if address := n.IPv6Address.String(); address != want[n.Name] {
			t.Errorf("%s has %s, want %s", n.Name, address, want[n.Name])
		}
	}
}
