// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric_test

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
)

// TestBalancerIPv6: a front end of IPv6 spreads over the fit nodes, keeps connections and whole datagrams together,
// and checks who may connect, beside one of IPv4.
func TestBalancerIPv6(t *testing.T) {
	m := newMachine(t)
	cfg := netlab.FabricConfig("lb", 0)
	cfg.IPv6 = ipv6.Plan{NodeCIDR: netip.MustParsePrefix("fd00:10:89::/64"),
		PodCIDR: netip.MustParsePrefix("fd00:10:244::/48"), ServiceCIDR: netip.MustParsePrefix("fd00:10:96::/112")}
	f := m.with(cfg)
	apply(t, f)
	b := &balanced{machine: m, vip: "fd00:10:90::1"}
	b.balancer = fabric.OpenBalancer(f.Plan().Namespace, f.Plan().NodeNet, f.Plan().Pool,
		netip.MustParsePrefix("fd00:10:90::/112"))
	b.front = fabric.Front{Address: netip.MustParseAddr(b.vip), Protocol: "tcp", Port: 80}
	from := ""
	for i := range 3 {
		name := fmt.Sprintf("host-%d", i+1)
		host := netlab.Namespace(t, filepath.Join(m.dir, name))
		at := netlab.HostAddress(f.Plan(), i+1)
		at6 := netip.MustParsePrefix(fmt.Sprintf("fd00:10:89::%d/64", at.Addr().As4()[3]))
		if err := f.Connect(t.Context(), fabric.Attachment{Node: name, Netns: host, Address: at,
			Address6: at6}); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			from = host
			continue
		}
		run(t, host, "ip", "address", "add", b.vip+"/128", "dev", "lo", "nodad")
		b.hosts = append(b.hosts, host)
		b.front.Nodes = append(b.front.Nodes, fabric.Target{Address: at.Addr(), Fit: true})
		b.echo(host, name)
	}
	four := fabric.Front{Address: netip.MustParseAddr(vip), Protocol: "tcp", Port: 80, Nodes: b.front.Nodes}
	b.set(b.front, four)
	open := map[string]*client{}
	for range 64 {
		c := b.connect(from)
		open[c.host()] = c
	}
	if len(open) != 2 {
		t.Fatalf("64 connections went to %v only", open)
	}
	b.front.Nodes[0].Fit = false
	b.set(b.front, four)
	for range 32 {
		if got := b.connect(from).host(); got != "host-2" {
			t.Fatalf("a new connection went to %s", got)
		}
	}
	for name, c := range open {
		if got := c.host(); got != name {
			t.Errorf("the connection to %s went to %s", name, got)
		}
	}
	b.front.Sources = []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}
	b.set(b.front, four)
	netlab.ExpectNothing(t, from, "tcp6", netip.MustParseAddrPort("["+b.vip+"]:80"))
	b.front.Sources, b.front.Closed = nil, true
	b.set(b.front, four)
	netlab.ExpectNothing(t, from, "tcp6", netip.MustParseAddrPort("["+b.vip+"]:80"))
	b.front.Closed = false

	b.front.Nodes[0].Fit = true
	send := b.datagrams(from)
	b.set(b.front, four)
	whole, err := send(1)
	if err != nil || !strings.HasPrefix(whole, "host-") {
		t.Fatal(whole, err)
	}
	for _, size := range []int{1452, 1453, 4000, 60_000} {
		if got, err := send(size); err != nil || got != whole {
			t.Errorf("%d bytes: got %q, %v, want %s", size, got, err, whole)
		}
	}
}
