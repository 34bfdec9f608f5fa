// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"net/netip"
	"testing"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// typed adds a network of a type to the host's intent.
func (h *labHost) typed(typ intent.NetworkType, subnet netip.Prefix, gateway netip.Addr) {
	h.Intent.Networks = append(h.Intent.Networks, intent.Network{ID: string(typ), Name: string(typ), Type: typ,
		Subnets: []intent.Subnet{{Prefix: subnet, Gateway: gateway}}})
}

// podOf adds a pod of that network. last tells it from other pods.
func (h *labHost) podOf(typ intent.NetworkType, last byte, a, gateway netip.Addr) *pod {
	p := h.pod(last)
	e := h.endpoint(p)
	e.NetworkID, e.Addresses = string(typ), []netip.Prefix{netip.PrefixFrom(a, 24)}
	e.Gateway, e.OutboundNAT = gateway, nil
	p.Address = a
	return p
}

// TestTransparent: endpoints in the nodes' own network are reached there by everyone at their own address, and the host
// stays in it. So are those of an L2Bridge with the nodes' subnet.
func TestTransparent(t *testing.T) {
	for _, typ := range []intent.NetworkType{intent.Transparent, intent.L2Bridge, intent.L2Tunnel} {
		t.Run(string(typ), func(t *testing.T) {
			w := newTwoHosts(t)
			nodes, router := w.lab.Fabric.Plan().NodeNet, w.lab.Fabric.Plan().Router.Addr()
			machine := netip.MustParseAddr("10.89.0.1")
			Serve(t, w.lab.Machine, "machine", "tcp4", at(machine, 6443))
			w.a.typed(typ, nodes, router)
			p := w.a.podOf(typ, 40, netip.MustParseAddr("10.89.0.140"), router)
			q := w.a.podOf(typ, 41, netip.MustParseAddr("10.89.0.141"), router)
			w.apply()
			for _, x := range []*pod{p, q} {
				Serve(t, x.Netns, x.Name, "tcp4", at(x.Address, 8080))
			}
			for from, want := range map[string]netip.Addr{
				w.lab.Machine: machine, w.b.Netns: w.b.Address, w.a.Netns: w.a.Address, q.Netns: q.Address,
				w.pods[0].Netns: w.pods[0].Address, w.pods[2].Netns: w.pods[2].Address,
			} {
				if client := Expect(t, from, "tcp4", at(p.Address, 8080), p.Name); client != want.String() {
					t.Errorf("the pod sees %s as %s", want, client)
				}
			}
			if client := Expect(t, p.Netns, "tcp4", at(machine, 6443), "machine"); client != p.Address.String() {
				t.Errorf("the machine sees the pod as %s", client)
			}
			Expect(t, p.Netns, "tcp4", at(w.pods[2].Address, 8080), w.pods[2].Name)
			Expect(t, w.a.Netns, "tcp4", at(machine, 6443), "machine")
			// A new process finds the same, and a removed endpoint answers nowhere.
			w.a.reopen(w.lab)
			w.a.apply()
			Expect(t, w.b.Netns, "tcp4", at(p.Address, 8080), p.Name)
			w.a.remove(p)
			w.a.apply()
			ExpectNothing(t, w.b.Netns, "tcp4", at(p.Address, 8080))
			Expect(t, w.b.Netns, "tcp4", at(q.Address, 8080), q.Name)
			w.a.reopen(w.lab)
			w.a.remove(q)
			w.a.apply()
			ExpectNothing(t, w.b.Netns, "tcp4", at(q.Address, 8080))
		})
	}
}

// TestNAT: endpoints of an internal network reach everything with the host's address, and are reached from outside by
// port mappings and load balancers only.
func TestNAT(t *testing.T) {
	for _, typ := range []intent.NetworkType{intent.NAT, intent.ICS} {
		t.Run(string(typ), func(t *testing.T) {
			w := newTwoHosts(t)
			subnet, gateway := netip.MustParsePrefix("172.20.0.0/24"), netip.MustParseAddr("172.20.0.1")
			w.a.typed(typ, subnet, gateway)
			p := w.a.podOf(typ, 40, netip.MustParseAddr("172.20.0.40"), gateway)
			q := w.a.podOf(typ, 41, netip.MustParseAddr("172.20.0.41"), gateway)
			w.a.endpoint(p).PortMappings = []intent.PortMapping{{Protocol: intent.TCP, ExternalPort: 8088,
				InternalPort: 8080}}
			w.apply()
			for _, x := range []*pod{p, q} {
				Serve(t, x.Netns, x.Name, "tcp4", at(x.Address, 8080))
			}
			if client := Expect(t, p.Netns, "tcp4", at(w.pods[2].Address, 8080),
				w.pods[2].Name); client != w.a.Address.String() {
				t.Errorf("a pod elsewhere sees %s", client)
			}
			Expect(t, q.Netns, "tcp4", at(p.Address, 8080), p.Name)
			Expect(t, w.a.Netns, "tcp4", at(p.Address, 8080), p.Name)
			Expect(t, w.b.Netns, "tcp4", at(w.a.Address, 8088), p.Name)
			Expect(t, w.pods[2].Netns, "tcp4", at(w.a.Address, 8088), p.Name)
			// Even a neighbour that knows the way does not get in.
			addRouteVia(t, w.b.Netns, subnet, w.a.Address)
			ExpectNothing(t, w.b.Netns, "tcp4", at(p.Address, 8080))
			ExpectNothing(t, w.pods[0].Netns, "tcp4", at(p.Address, 8080))
		})
	}
}

// TestPrivate: endpoints of a private network reach each other, and nothing else reaches them or is reached.
func TestPrivate(t *testing.T) {
	w := newTwoHosts(t)
	subnet, gateway := netip.MustParsePrefix("172.20.0.0/24"), netip.MustParseAddr("172.20.0.1")
	w.a.typed(intent.Private, subnet, gateway)
	p := w.a.podOf(intent.Private, 40, netip.MustParseAddr("172.20.0.40"), gateway)
	q := w.a.podOf(intent.Private, 41, netip.MustParseAddr("172.20.0.41"), gateway)
	w.a.service("web", vip, intent.TCP, 80, 8080, w.pods[0].Address)
	w.apply()
	for _, x := range []*pod{p, q} {
		Serve(t, x.Netns, x.Name, "tcp4", at(x.Address, 8080))
	}
	Serve(t, w.a.Netns, "host", "tcp4", at(w.a.Address, 10250))
	addRouteVia(t, w.b.Netns, subnet, w.a.Address)
	Expect(t, q.Netns, "tcp4", at(p.Address, 8080), p.Name)
	Expect(t, p.Netns, "tcp4", at(q.Address, 8080), q.Name)
	// The gateway does not answer; the host does in the place of the other endpoint.
	addRouteVia(t, p.Netns, netip.MustParsePrefix("0.0.0.0/0"), q.Address)
	for _, to := range []netip.AddrPort{
		at(w.a.Address, 10250), at(w.pods[0].Address, 8080), at(w.pods[2].Address, 8080), at(vip, 80),
	} {
		ExpectNothing(t, p.Netns, "tcp4", to)
	}
	for _, from := range []string{w.a.Netns, w.b.Netns, w.pods[0].Netns} {
		ExpectNothing(t, from, "tcp4", at(p.Address, 8080))
	}
	Expect(t, w.pods[2].Netns, "tcp4", at(w.pods[0].Address, 8080), w.pods[0].Name)
}

// TestTransparentIPv6: the uplink answers neighbour discovery for the endpoint, too.
func TestTransparentIPv6(t *testing.T) {
	w := newDual(t)
	plan := w.lab.Fabric.Plan()
	w.a.typed(intent.Transparent, plan.NodeNet, plan.Router.Addr())
	p := w.a.podOf(intent.Transparent, 40, netip.MustParseAddr("10.89.0.140"), plan.Router.Addr())
	a := netip.MustParseAddr("fd00:10:89::8c")
	e := w.a.endpoint(p)
	e.Addresses, e.Gateway6 = append(e.Addresses, netip.PrefixFrom(a, 64)), plan.Router6.Addr()
	w.a.apply()
	Serve(t, p.Netns, p.Name, "tcp6", at(a, 8080))
	for _, from := range []string{w.b.Netns, w.pods[2].Netns} {
		Expect(t, from, "tcp6", at(a, 8080), p.Name)
	}
	if client := Expect(t, p.Netns, "tcp6", at(six(w.pods[2].Address), 8080), w.pods[2].Name); client != a.String() {
		t.Errorf("a pod elsewhere sees %s", client)
	}
}

// TestSpoofingOfTypes: in every type of network an endpoint sends with its own address only. What the other endpoint
// hears is checked, because an answer would go to the address' owner.
func TestSpoofingOfTypes(t *testing.T) {
	for typ, first := range map[intent.NetworkType]string{
		intent.Transparent: "10.89.0.140", intent.L2Tunnel: "172.20.1.140", intent.NAT: "172.20.2.140",
		intent.ICS: "172.20.3.140", intent.Private: "172.20.4.140",
	} {
		t.Run(string(typ), func(t *testing.T) {
			w := newTwoHosts(t)
			a := netip.MustParseAddr(first)
			subnet := netip.PrefixFrom(a, 24).Masked()
			w.a.typed(typ, subnet, subnet.Addr().Next())
			p := w.a.podOf(typ, 40, a, subnet.Addr().Next())
			q := w.a.podOf(typ, 41, a.Next(), subnet.Addr().Next())
			w.a.apply()
			heard := listen(t, q.Netns, at(q.Address, 54))
			free := a.Next().Next()
			for _, from := range []netip.Addr{free, w.pods[1].Address, w.a.Address} {
				addAddress(t, p.Netns, netip.PrefixFrom(from, 32))
				if err := send(t, p.Netns, at(from, 40000), at(q.Address, 54)); err != nil {
					t.Fatal(err)
				}
			}
			if err := send(t, p.Netns, at(p.Address, 40000), at(q.Address, 54)); err != nil {
				t.Fatal(err)
			}
			if from := <-heard; from.Addr() != p.Address { // the last one to be sent, so the others are gone
				t.Errorf("heard %s", from)
			}
		})
	}
}

// addRouteVia routes the prefix to a neighbour.
func addRouteVia(t *testing.T, netns string, p netip.Prefix, hop netip.Addr) {
	t.Helper()
	s, err := kernel.Open(netns)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := s.FindLink("eth0")
	if err != nil || l == nil {
		t.Fatalf("find link: %v", err)
	}
	if err := s.ReplaceRoute(kernel.Route{Destination: p, LinkIndex: l.Attrs().Index, NextHop: hop}); err != nil {
		t.Fatal(err)
	}
}
