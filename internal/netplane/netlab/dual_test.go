// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// dual is twoHosts in two families. Addresses of IPv6 are those of IPv4 with the same last byte.
type dual struct {
	*twoHosts
}

// plan6 has networks of the kind that a cluster with two families has.
func plan6() ipv6.Plan {
	return ipv6.Plan{
		NodeCIDR:    netip.MustParsePrefix("fd00:10:89::/64"),
		PodCIDR:     netip.MustParsePrefix("fd00:10:244::/48"),
		ServiceCIDR: netip.MustParsePrefix("fd00:10:96::/112"),
	}
}

// six returns the IPv6 address that belongs to an address of a host or a pod of the lab.
func six(a netip.Addr) netip.Addr {
	b := a.As4()
	if b[1] == 244 {
		return netip.MustParseAddr(fmt.Sprintf("fd00:10:244:%x::%x", b[2], b[3]))
	}
	return netip.MustParseAddr(fmt.Sprintf("fd00:10:89::%x", b[3]))
}

func newDual(t *testing.T) *dual {
	t.Helper()
	l := NewLab(t, plan6())
	w := &dual{&twoHosts{lab: l, a: l.host(), b: l.host()}}
	w.pods = [4]*pod{w.a.pod(5), w.a.pod(6), w.b.pod(5), w.b.pod(6)}
	router := fabric.OpenRouter(l.Fabric.Plan().Namespace)
	for _, h := range []*labHost{w.a, w.b} {
		pods := netip.PrefixFrom(six(h.Pods.Addr()), 64).Masked()
		if err := router.SetPrefixes(t.Context(), six(h.Address), []netip.Prefix{h.Pods, pods}); err != nil {
			t.Fatal(err)
		}
		h.Intent.Networks[0].Subnets = append(h.Intent.Networks[0].Subnets,
			intent.Subnet{Prefix: pods, Gateway: pods.Addr().Next()})
		for i := range h.Intent.Endpoints {
			e := &h.Intent.Endpoints[i]
			e.Addresses = append(e.Addresses, netip.PrefixFrom(six(e.Addresses[0].Addr()), 64))
			e.Gateway6 = pods.Addr().Next().Next()
		}
	}
	w.apply()
	for _, p := range w.pods {
		Serve(t, p.Netns, p.Name, "tcp", at(netip.IPv6Unspecified(), 8080)) // both families
		Serve(t, p.Netns, p.Name, "udp6", at(six(p.Address), 53))
	}
	return w
}

// TestDualPodToPod: pods reach pods of their own node and of the other one in both families, each seen under its own
// address; so do the hosts and the machine.
func TestDualPodToPod(t *testing.T) {
	w := newDual(t)
	for _, from := range w.pods {
		for _, to := range w.pods {
			if from == to {
				continue
			}
			client := Expect(t, from.Netns, "tcp6", at(six(to.Address), 8080), to.Name)
			if client != six(from.Address).String() {
				t.Errorf("%s sees %s as %s", to.Name, from.Name, client)
			}
			Expect(t, from.Netns, "tcp4", at(to.Address, 8080), to.Name)
		}
		client := Expect(t, w.a.Netns, "tcp6", at(six(from.Address), 8080), from.Name)
		if client != six(w.a.Address).String() {
			t.Errorf("%s sees %s as %s", from.Name, w.a.Name, client)
		}
		client = Expect(t, w.lab.Machine, "tcp6", at(six(from.Address), 8080), from.Name)
		if want := w.lab.Fabric.Plan().MachineAddress6.Addr(); client != want.String() {
			t.Errorf("%s sees the machine as %s, want %s", from.Name, client, want)
		}
	}
}

// TestDualServices: ClusterIPs and node ports of IPv6 reach the backends of IPv6, and node ports of one number in two
// families do not disturb each other.
func TestDualServices(t *testing.T) {
	w := newDual(t)
	p := w.pods
	vip6 := netip.MustParseAddr("fd00:10:96::77")
	for _, h := range []*labHost{w.a, w.b} {
		h.service("web", vip, intent.TCP, 80, 8080, p[0].Address)
		h.service("node", netip.Addr{}, intent.TCP, 30080, 8080, p[0].Address)
		h.service("web6", vip6, intent.TCP, 80, 8080, six(p[1].Address), six(p[2].Address)).IPv6 = true
		h.service("node6", netip.Addr{}, intent.TCP, 30080, 8080, six(p[1].Address), six(p[2].Address)).IPv6 = true
		h.service("dns6", vip6, intent.UDP, 53, 53, six(p[3].Address)).IPv6 = true
	}
	w.apply()
	for i, from := range p {
		node := w.a
		if i >= 2 {
			node = w.b
		}
		for name, client := range collect(t, from.Netns, "tcp6", at(vip6, 80), p[1].Name, p[2].Name) {
			want := six(from.Address)
			if name == from.Name {
				want = six(node.Address) // it must not see itself
			}
			if client != want.String() {
				t.Errorf("%s sees %s as %s, want %s", name, from.Name, client, want)
			}
		}
		Expect(t, from.Netns, "udp6", at(vip6, 53), p[3].Name)
		Expect(t, from.Netns, "tcp4", at(vip, 80), p[0].Name)
		for _, h := range []*labHost{w.a, w.b} {
			collect(t, from.Netns, "tcp6", at(six(h.Address), 30080), p[1].Name, p[2].Name)
			Expect(t, from.Netns, "tcp4", at(h.Address, 30080), p[0].Name)
		}
	}
	for name, client := range collect(t, w.a.Netns, "tcp6", at(six(w.b.Address), 30080), p[1].Name, p[2].Name) {
		if client != six(w.b.Address).String() {
			t.Errorf("externalTrafficPolicy Cluster: %s sees the client as %s, want the node", name, client)
		}
	}
	ExpectNothing(t, w.a.Netns, "tcp6", at(netip.IPv6Loopback(), 30080))
	ExpectNothing(t, p[0].Netns, "tcp6", at(vip6, 81))
	// A backend that moves takes its datagrams along, also those of a client that keeps its port.
	w.a.Intent.LoadBalancers[4].Backends = []intent.Backend{{Address: six(p[2].Address)}}
	w.a.apply()
	Expect(t, p[0].Netns, "udp6", at(vip6, 53), p[2].Name)
}

// TestDualIsClosed: ACLs hold in the family that they are about, and a pod sends under none but its own addresses.
func TestDualIsClosed(t *testing.T) {
	w := newDual(t)
	p := w.pods
	e := w.a.endpoint(p[0])
	e.ACLs = []intent.ACL{
		{Direction: intent.In, Action: intent.Allow, Priority: 100,
			RemoteAddresses: []netip.Prefix{netip.PrefixFrom(six(p[2].Address), 128)}},
		{Direction: intent.In, Action: intent.Block, Priority: 65500},
	}
	w.apply()
	Expect(t, p[2].Netns, "tcp6", at(six(p[0].Address), 8080), p[0].Name)
	for _, from := range []*pod{p[1], p[3]} {
		ExpectNothing(t, from.Netns, "tcp6", at(six(p[0].Address), 8080))
		ExpectNothing(t, from.Netns, "tcp4", at(p[0].Address, 8080))
	}
	ExpectNothing(t, p[2].Netns, "tcp4", at(p[0].Address, 8080))
	e.ACLs = nil
	w.apply()
	spoof := netip.MustParseAddr("fd00:10:244:1::66")
	addAddress(t, p[1].Netns, netip.PrefixFrom(spoof, 128))
	// Let replies find the spoofer, so that only the rule stands in the way.
	addRoute(t, w.a.Netns, netip.PrefixFrom(spoof, 128), w.a.endpoint(p[1]).ID)
	if got, _, err := askFrom(t, p[1].Netns, "udp6", at(spoof, 40000), at(six(p[2].Address), 53), refusal); err == nil {
		t.Errorf("%s answered the spoofed client", got)
	}
	_, _, err := askFrom(t, p[1].Netns, "udp6", at(six(p[1].Address), 40000), at(six(p[2].Address), 53), patience)
	if err != nil {
		t.Errorf("a pod is not answered under its own address: %v", err)
	}
	if routes := run(t, p[1].Netns, "ip", "-6", "route"); strings.Contains(routes, "fd00:10:244:1::/64") {
		t.Errorf("a pod's prefix is on its link, where nothing answers:\n%s", routes)
	}
}

// TestDualSurvives: a new plane finds the links and routes of IPv6 as they should be, and a host that loses the family
// has nothing of it left.
func TestDualSurvives(t *testing.T) {
	w := newDual(t)
	state := func() string {
		return run(t, w.a.Netns, "ip", "-6", "route") + run(t, w.a.Netns, "ip", "-6", "-o", "address") +
			run(t, w.a.Netns, "nft", "list", "table", "inet", "mullion")
	}
	before := run(t, w.a.Netns, "ip", "-6", "route")
	w.a.reopen(w.lab)
	w.apply()
	if after := run(t, w.a.Netns, "ip", "-6", "route"); after != before {
		t.Errorf("routes are\n%s\nwere\n%s", after, before)
	}
	Expect(t, w.pods[2].Netns, "tcp6", at(six(w.pods[0].Address), 8080), w.pods[0].Name)
	w.a.Intent.Uplink.Address6 = netip.Prefix{}
	w.apply()
	if left := state(); strings.Contains(left, "fd00:10:244:1:") {
		t.Errorf("left behind:\n%s", left)
	}
	Expect(t, w.pods[2].Netns, "tcp4", at(w.pods[0].Address, 8080), w.pods[0].Name)
}

func run(t *testing.T, netns string, argv ...string) string {
	t.Helper()
	var out []byte
	if err := in(t, netns, func() (err error) {
		out, err = exec.Command(argv[0], argv[1:]...).CombinedOutput()
		return err
	}); err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return string(out)
}
