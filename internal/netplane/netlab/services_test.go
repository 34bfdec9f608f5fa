// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"net/netip"
	"testing"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

func at(a netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a, port) }

var vip = netip.MustParseAddr("10.96.7.7")

// twoHosts is a lab of two hosts with two pods each; every pod serves its own
// name on TCP port 8080 and UDP port 53.
type twoHosts struct {
	lab  *Lab
	a, b *labHost
	pods [4]*pod // two of a, two of b
}

func newTwoHosts(t *testing.T) *twoHosts {
	t.Helper()
	l := newLab(t)
	w := &twoHosts{lab: l, a: l.host(), b: l.host()}
	w.pods = [4]*pod{w.a.pod(5), w.a.pod(6), w.b.pod(5), w.b.pod(6)}
	w.apply()
	for _, p := range w.pods {
		Serve(t, p.Netns, p.Name, "tcp4", at(p.Address, 8080))
		Serve(t, p.Netns, p.Name, "udp4", at(p.Address, 53))
	}
	return w
}

func (w *twoHosts) apply() { w.a.apply(); w.b.apply() }

func TestPodToPod(t *testing.T) {
	w := newTwoHosts(t)
	for _, from := range w.pods {
		for _, to := range w.pods {
			if from == to {
				continue
			}
			if client := Expect(t, from.Netns, "tcp4", at(to.Address, 8080), to.Name); client != from.Address.String() {
				t.Errorf("%s sees %s as %s", to.Name, from.Name, client)
			}
		}
		if client := Expect(t, w.lab.Machine, "tcp4", at(from.Address, 8080), from.Name); client != "10.89.0.1" {
			t.Errorf("%s sees the machine as %s", from.Name, client)
		}
		if client := Expect(t, w.a.Netns, "tcp4", at(from.Address, 8080), from.Name); client != w.a.Address.String() {
			t.Errorf("%s sees %s as %s", from.Name, w.a.Name, client)
		}
	}
}

// collect asks until every one of the expected servers has answered, and
// returns under which addresses they saw the client.
func collect(t *testing.T, netns, network string, to netip.AddrPort, want ...string) map[string]string {
	t.Helper()
	seen := map[string]string{}
	for range 100 * len(want) {
		name, client, err := ask(t, netns, network, to)
		if err != nil {
			t.Fatalf("ask %s: %v", to, err)
		}
		seen[name] = client
		if len(seen) == len(want) {
			break
		}
	}
	for _, name := range want {
		if seen[name] == "" {
			t.Fatalf("ask %s: %s never answered, only %v", to, name, seen)
		}
	}
	return seen
}

func TestClusterIP(t *testing.T) {
	w := newTwoHosts(t)
	p := w.pods
	for _, h := range []*labHost{w.a, w.b} {
		h.service("web", vip, intent.TCP, 80, 8080, p[0].Address, p[1].Address, p[2].Address)
		h.service("dns", vip, intent.UDP, 53, 53, p[1].Address, p[3].Address)
	}
	w.apply()
	for i, from := range p {
		seen := collect(t, from.Netns, "tcp4", at(vip, 80), p[0].Name, p[1].Name, p[2].Name)
		node := w.a.Address
		if i >= 2 {
			node = w.b.Address
		}
		for name, client := range seen {
			want := from.Address.String()
			if name == from.Name {
				want = node.String() // hairpin: it must not see itself
			}
			if client != want {
				t.Errorf("%s sees %s as %s, want %s", name, from.Name, client, want)
			}
		}
		collect(t, from.Netns, "udp4", at(vip, 53), p[1].Name, p[3].Name)
	}
	// A program of the host itself.
	collect(t, w.a.Netns, "tcp4", at(vip, 80), p[0].Name, p[1].Name, p[2].Name)
	ExpectNothing(t, p[0].Netns, "tcp4", at(vip, 81))
}

// TestNoLocalBackends: programs of a host do not reach its own pods by load balancers,
// and everything else is as without the limit.
func TestNoLocalBackends(t *testing.T) {
	w := newTwoHosts(t)
	p := w.pods
	w.a.Intent.NoLocalBackends, w.b.Intent.NoLocalBackends = true, true
	for _, h := range []*labHost{w.a, w.b} {
		h.service("here", netip.Addr{}, intent.TCP, 30080, 8080, p[0].Address)
		h.service("there", netip.Addr{}, intent.TCP, 30081, 8080, p[2].Address)
		h.service("both", vip, intent.TCP, 80, 8080, p[0].Address, p[2].Address)
	}
	w.apply()
	ExpectNothing(t, w.a.Netns, "tcp4", at(w.a.Address, 30080))
	Expect(t, w.a.Netns, "tcp4", at(w.b.Address, 30080), p[0].Name)
	Expect(t, w.a.Netns, "tcp4", at(w.a.Address, 30081), p[2].Name)
	Expect(t, w.a.Netns, "tcp4", at(p[0].Address, 8080), p[0].Name)
	Expect(t, w.lab.Machine, "tcp4", at(w.a.Address, 30080), p[0].Name)
	for _, from := range p {
		collect(t, from.Netns, "tcp4", at(vip, 80), p[0].Name, p[2].Name)
	}
	// A pod's connection to a program of its host is answered.
	node := at(w.a.Address, 9000)
	Serve(t, w.a.Netns, "program", "tcp4", node)
	w.a.service("program", netip.MustParseAddr("10.96.0.77"), intent.TCP, 80, 9000, w.a.Address)
	w.a.apply()
	Expect(t, p[0].Netns, "tcp4", at(netip.MustParseAddr("10.96.0.77"), 80), "program")
	w.a.Intent.NoLocalBackends = false
	w.a.apply()
	Expect(t, w.a.Netns, "tcp4", at(w.a.Address, 30080), p[0].Name)
}

func TestNodePort(t *testing.T) {
	w := newTwoHosts(t)
	p := w.pods
	for _, h := range []*labHost{w.a, w.b} {
		h.service("web", netip.Addr{}, intent.TCP, 30080, 8080, p[0].Address, p[2].Address)
	}
	local := w.a.service("local", netip.Addr{}, intent.TCP, 30081, 8080, p[1].Address)
	local.DSR = true
	w.apply()
	seen := collect(t, w.lab.Machine, "tcp4", at(w.a.Address, 30080), p[0].Name, p[2].Name)
	for name, got := range seen {
		if got != w.a.Address.String() {
			t.Errorf("externalTrafficPolicy Cluster: %s sees the client as %s, want the first node", name, got)
		}
	}
	if client := Expect(t, w.lab.Machine, "tcp4", at(w.a.Address, 30081), p[1].Name); client != "10.89.0.1" {
		t.Errorf("externalTrafficPolicy Local: backend sees the client as %s", client)
	}
	collect(t, w.a.Netns, "tcp4", at(w.a.Address, 30080), p[0].Name, p[2].Name)
	collect(t, p[0].Netns, "tcp4", at(w.a.Address, 30080), p[0].Name, p[2].Name)
	collect(t, p[0].Netns, "tcp4", at(w.b.Address, 30080), p[0].Name, p[2].Name)
	ExpectNothing(t, w.a.Netns, "tcp4", at(netip.MustParseAddr("127.0.0.1"), 30080))
	ExpectNothing(t, w.lab.Machine, "tcp4", at(w.b.Address, 30081))
}

// TestSourceOfPassingConnections: which source address a connection gets does
// not depend on how its backend is drawn, nor on which one it is.
func TestSourceOfPassingConnections(t *testing.T) {
	w := newTwoHosts(t)
	p := w.pods
	sourceVIP := netip.MustParseAddr("10.244.1.9")
	for _, d := range []intent.Distribution{intent.FiveTuple, intent.SourceIPProtocol, intent.SourceIP} {
		for _, c := range []struct {
			name     string
			edit     func(lb *intent.LoadBalancer)
			backends []*pod
			want     netip.Addr
		}{
			{"node", func(*intent.LoadBalancer) {}, p[2:], w.a.Address},
			{"SourceVIP", func(lb *intent.LoadBalancer) { lb.SourceVIP = sourceVIP }, p[2:], sourceVIP},
			{"local backends", func(*intent.LoadBalancer) {}, p[:2], w.a.Address},
			{"SourceVIP, local backends", func(lb *intent.LoadBalancer) { lb.SourceVIP = sourceVIP }, p[:2], sourceVIP},
			{"DSR", func(lb *intent.LoadBalancer) { lb.DSR = true }, p[:2], netip.MustParseAddr("10.89.0.1")},
		} {
			w.a.Intent.LoadBalancers = nil
			lb := w.a.service("web", netip.Addr{}, intent.TCP, 30080, 8080, c.backends[0].Address,
				c.backends[1].Address)
			lb.Distribution = d
			c.edit(lb)
			w.a.apply()
			answers := map[string]string{}
			if d == intent.FiveTuple {
				answers = collect(t, w.lab.Machine, "tcp4", at(w.a.Address, 30080), c.backends[0].Name,
					c.backends[1].Name)
			}
			for range 8 {
				name, client, err := ask(t, w.lab.Machine, "tcp4", at(w.a.Address, 30080))
				if err != nil {
					t.Fatal(err)
				}
				if d != intent.FiveTuple && len(answers) > 0 && answers[name] == "" {
					t.Errorf("%s, distribution %d: %s answers after %v", c.name, d, name, answers)
				}
				answers[name] = client
			}
			for name, client := range answers {
				if client != c.want.String() {
					t.Errorf("%s, distribution %d: %s sees the client as %s, want %s", c.name, d, name, client, c.want)
				}
			}
		}
	}
}

// TestWithoutDSR: a pod that comes by a ClusterIP is seen as its node, or as the source VIP.
func TestWithoutDSR(t *testing.T) {
	w := newTwoHosts(t)
	p := w.pods
	sourceVIP := netip.MustParseAddr("10.244.1.9")
	lb := w.a.service("web", vip, intent.TCP, 80, 8080, p[0].Address, p[2].Address)
	for _, want := range []netip.Addr{w.a.Address, sourceVIP} {
		lb.DSR = false
		if want == sourceVIP {
			lb.SourceVIP = want
		}
		w.a.apply()
		for _, from := range []string{p[0].Netns, p[1].Netns, w.a.Netns} {
			for name, client := range collect(t, from, "tcp4", at(vip, 80), p[0].Name, p[2].Name) {
				// A pod that reached itself is told nothing new.
				itself := from == p[0].Netns && name == p[0].Name
				if client != want.String() && (!itself || client != w.a.Address.String()) {
					t.Errorf("%s sees %s, want %s", name, client, want)
				}
			}
		}
	}
}

func TestOutboundNAT(t *testing.T) {
	w := newTwoHosts(t)
	// A server outside the cluster, behind the machine.
	outside := netip.MustParseAddr("192.0.2.80")
	Serve(t, behindMachine(t, w.lab, outside), "outside", "tcp4", at(outside, 80))
	Serve(t, w.lab.Machine, "machine", "tcp4", at(netip.MustParseAddr("10.89.0.1"), 6443))
	if client := Expect(t, w.pods[0].Netns, "tcp4", at(outside, 80), "outside"); client != w.a.Address.String() {
		t.Errorf("outside sees the pod as %s, want %s", client, w.a.Address)
	}
	if client := Expect(t, w.pods[0].Netns, "tcp4", at(netip.MustParseAddr("10.89.0.1"), 6443),
		"machine"); client != w.pods[0].Address.String() {
		t.Errorf("exception: the machine sees the pod as %s, want its own address", client)
	}
}
