// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

func testFronts() []Front {
	addr, prefix := netip.MustParseAddr, netip.MustParsePrefix
	node := func(a string, fit bool) Target { return Target{Address: addr(a), Fit: fit} }
	return []Front{
		{Address: addr("10.90.0.1"), Protocol: "tcp", Port: 80,
			Nodes: []Target{node("10.89.0.11", true), node("10.89.0.10", true), node("10.89.0.110", false)}},
		{Address: addr("10.90.0.1"), Protocol: "udp", Port: 53, Nodes: []Target{node("10.89.0.10", true)}},
		{Address: addr("10.90.0.2"), Protocol: "tcp", Port: 80, ByClient: true,
			Sources: []netip.Prefix{prefix("10.89.0.1/32"), prefix("192.0.2.0/24")},
			Nodes:   []Target{node("10.89.0.10", true), node("10.89.0.11", true)}},
		{Address: addr("10.90.0.3"), Protocol: "tcp", Port: 443, Nodes: []Target{node("10.89.0.10", false)}},
		{Address: addr("10.90.0.4"), Protocol: "tcp", Port: 443},
	}
}

func TestBalance(t *testing.T) {
	router, pool := netip.MustParseAddr("10.89.0.254"), netip.MustParsePrefix("10.90.0.0/24")
	pool6 := netip.MustParsePrefix("fd00:10:90::/112")
	for _, c := range []struct {
		name   string
		pools  []netip.Prefix
		fronts []Front
	}{
		{"balance", []netip.Prefix{pool}, testFronts()},
		{"balance-nothing", []netip.Prefix{pool}, nil},
		{"balance-two-families", []netip.Prefix{pool, pool6}, append(testFronts()[:2], Front{
			Address: pool6.Addr().Next(), Protocol: "tcp", Port: 80, Nodes: testFronts()[0].Nodes,
			Sources: []netip.Prefix{netip.MustParsePrefix("fd00::/8")},
		}, Front{
			Address: pool6.Addr().Next(), Protocol: "tcp", Port: 443, Nodes: testFronts()[1].Nodes, Closed: true,
		})},
	} {
		script, err := balance(router, c.pools, c.fronts)
		if err != nil {
			t.Fatal(err)
		}
		testenv.Golden(t, c.name+".nft", []byte(script))
	}
}

func TestBalanceRefuses(t *testing.T) {
	pool := netip.MustParsePrefix("10.90.0.0/24")
	for _, c := range []struct {
		name string
		edit func(*Front)
		want string
	}{
		{"foreign address", func(f *Front) { f.Address = netip.MustParseAddr("10.91.0.1") },
			"not an address of the pool"},
		{"no address", func(f *Front) { f.Address = netip.Addr{} }, "not an address of the pool"},
		{"protocol", func(f *Front) { f.Protocol = "sctp" }, "not a port of TCP or UDP"},
		{"port", func(f *Front) { f.Port = 0 }, "not a port of TCP or UDP"},
		{"twice", func(f *Front) { f.Protocol, f.Port = "udp", 53 }, "listed twice"},
		{"node twice", func(f *Front) { f.Nodes = append(f.Nodes, f.Nodes[0]) }, "node 10.89.0.11: listed twice"},
		{"IPv6 node", func(f *Front) { f.Nodes[0].Address = netip.MustParseAddr("fd00::1") }, "not an IPv4 address"},
		{"IPv6 source", func(f *Front) { f.Sources = []netip.Prefix{netip.MustParsePrefix("fd00::/64")} },
			"not a range of its family"},
		{"sources overlap", func(f *Front) {
			f.Sources = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.1.0.0/16")}
		}, "overlap"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fronts := testFronts()
			c.edit(&fronts[0])
			_, err := balance(netip.MustParseAddr("10.89.0.254"), []netip.Prefix{pool}, fronts)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestDisjoint(t *testing.T) {
	var in, want []netip.Prefix
	for _, s := range []string{"10.1.0.0/16", "192.0.2.0/24", "10.0.0.0/8", "192.0.2.0/24", "10.0.0.0/30"} {
		in = append(in, netip.MustParsePrefix(s))
	}
	for _, s := range []string{"10.0.0.0/8", "192.0.2.0/24"} {
		want = append(want, netip.MustParsePrefix(s))
	}
	if got := Disjoint(in); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
