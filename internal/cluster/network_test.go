// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"net/netip"
	"testing"

	"github.com/mullion-k8s/mullion/internal/linuxhost"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/winhost"
)

// TestSecondFamily plans every cluster that a machine can hold with two address families: no range is another's.
func TestSecondFamily(t *testing.T) {
	var taken []netip.Prefix
	for index := range maxIndex + 1 {
		s := Network{index}.second()
		for _, r := range []netip.Prefix{s.NodeNet, s.PodNet, s.ServiceNet, s.Pool} {
			for _, other := range taken {
				if r.Overlaps(other) {
					t.Errorf("cluster %d: %s overlaps %s", index, r, other)
				}
			}
			taken = append(taken, r)
		}
	}
	want := fabric.Second{
		NodeNet:    netip.MustParsePrefix("fd00:10:89:3::/64"),
		PodNet:     netip.MustParsePrefix("fd00:10:241::/48"),
		ServiceNet: netip.MustParsePrefix("fd00:10:99::/112"),
		Pool:       netip.MustParsePrefix("fd00:10:90:3::/112"),
	}
	if got := (Network{3}).second(); got != want {
		t.Errorf("cluster 3: %v, want %v", got, want)
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
	second := c.Network().second()
	if s := p.Server.Second; s.PodCIDR != second.PodNet || s.ServiceCIDR != second.ServiceNet ||
		s.NodeCIDR != second.NodeNet || p.Fabric.Second != second {
		t.Errorf("server %v, fabric %v, want %v", s, p.Fabric.Second, second)
	}
	want := map[string]string{
		"win-1": "fd00:10:89:1::10/64", "win-2": "fd00:10:89:1::11/64", "linux-1": "fd00:10:89:1::110/64",
	}
	for _, n := range p.Nodes {
		if err := n.Document.(interface{ Validate() error }).Validate(); err != nil {
			t.Errorf("%s: %v", n.Name, err)
		}
		var address string
		switch d := n.Document.(type) {
		case winhost.Config:
			address = d.Second.Address.String()
		case linuxhost.Config:
			address = d.Second.Address.String()
		}
		if address != want[n.Name] {
			t.Errorf("%s has %s, want %s", n.Name, address, want[n.Name])
		}
	}
}
