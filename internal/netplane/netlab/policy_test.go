// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// TestAffinity: with SourceIP every connection of one client goes to one
// backend, and different clients do not all go to the same.
func TestAffinity(t *testing.T) {
	w := newTwoHosts(t)
	p := w.pods
	for _, h := range []*labHost{w.a, w.b} {
		h.service("web", vip, intent.TCP, 80, 8080, p[0].Address, p[1].Address,
			p[2].Address).Distribution = intent.SourceIP
	}
	clients := []*pod{w.a.pod(21), w.a.pod(22), w.a.pod(23), w.a.pod(24), w.a.pod(25), w.a.pod(26), w.a.pod(27),
		w.a.pod(28)}
	w.apply()
	chosen := map[string]bool{}
	for _, c := range clients {
		first, _, err := ask(t, c.Netns, "tcp4", at(vip, 80))
		if err != nil {
			t.Fatal(err)
		}
		chosen[first] = true
		for range 10 {
			Expect(t, c.Netns, "tcp4", at(vip, 80), first)
		}
	}
	if len(chosen) < 2 {
		t.Errorf("eight clients were all given to %v", chosen)
	}
}

func TestHostPort(t *testing.T) {
	w := newTwoHosts(t)
	p := w.pods
	w.a.endpoint(p[0]).PortMappings = []intent.PortMapping{{Protocol: intent.TCP, ExternalPort: 8088,
		InternalPort: 8080}}
	w.a.endpoint(p[1]).PortMappings = []intent.PortMapping{{Protocol: intent.TCP, ExternalPort: 8089,
		InternalPort: 8080, VIP: w.a.Address, LocalRouted: true}}
	w.a.apply()
	if client := Expect(t, w.lab.Machine, "tcp4", at(w.a.Address, 8088), p[0].Name); client != "10.89.0.1" {
		t.Errorf("the pod sees the client as %s", client)
	}
	Expect(t, p[2].Netns, "tcp4", at(w.a.Address, 8088), p[0].Name)
	// Without the flag, not from the host and its own pods.
	ExpectNothing(t, w.a.Netns, "tcp4", at(w.a.Address, 8088))
	ExpectNothing(t, p[1].Netns, "tcp4", at(w.a.Address, 8088))
	for _, from := range []string{w.lab.Machine, w.a.Netns, p[0].Netns, p[2].Netns} {
		Expect(t, from, "tcp4", at(w.a.Address, 8089), p[1].Name)
	}
	w.a.remove(p[0])
	w.a.apply()
	ExpectNothing(t, w.lab.Machine, "tcp4", at(w.a.Address, 8088))
}

func TestACL(t *testing.T) {
	w := newTwoHosts(t)
	p := w.pods
	Serve(t, p[0].Netns, "admin", "tcp4", at(p[0].Address, 9090))
	w.a.endpoint(p[0]).ACLs = []intent.ACL{
		{Direction: intent.In, Action: intent.Block, Protocols: []uint8{intent.TCP}, Priority: 1000},
		{Direction: intent.In, Action: intent.Allow, Protocols: []uint8{intent.TCP},
			LocalPorts:      []intent.PortRange{{First: 8080, Last: 8080}},
			RemoteAddresses: []netip.Prefix{netip.PrefixFrom(p[2].Address, 32)}, Priority: 200},
		{Direction: intent.Out, Action: intent.Block, RemoteAddresses: []netip.Prefix{w.b.Pods},
			Protocols: []uint8{intent.UDP}, Priority: 200},
	}
	w.a.service("web", vip, intent.TCP, 80, 8080, p[0].Address)
	w.b.service("web", vip, intent.TCP, 80, 8080, p[0].Address)
	w.apply()
	Expect(t, p[2].Netns, "tcp4", at(p[0].Address, 8080), p[0].Name)
	Expect(t, p[2].Netns, "tcp4", at(vip, 80), p[0].Name)
	ExpectNothing(t, p[2].Netns, "tcp4", at(p[0].Address, 9090))
	ExpectNothing(t, p[1].Netns, "tcp4", at(p[0].Address, 8080))
	ExpectNothing(t, p[1].Netns, "tcp4", at(vip, 80))
	ExpectNothing(t, w.a.Netns, "tcp4", at(p[0].Address, 8080))
	// Out: only UDP to the other node's pods is blocked.
	Expect(t, p[0].Netns, "udp4", at(p[1].Address, 53), p[1].Name)
	ExpectNothing(t, p[0].Netns, "udp4", at(p[2].Address, 53))
	Expect(t, p[0].Netns, "tcp4", at(p[2].Address, 8080), p[2].Name)
	// Tiers: the first lets one pod in for good and leaves the other to the second, which lets nothing in.
	w.a.endpoint(p[0]).ACLs = []intent.ACL{
		{Direction: intent.In, Action: intent.Block, Tier: 2, Priority: 1},
		{Direction: intent.In, Action: intent.Allow, Tier: 1, Priority: 2,
			RemoteAddresses: []netip.Prefix{netip.PrefixFrom(p[2].Address, 32)}},
		{Direction: intent.In, Action: intent.Pass, Tier: 1, Priority: 3,
			RemoteAddresses: []netip.Prefix{netip.PrefixFrom(p[1].Address, 32)}},
		{Direction: intent.In, Action: intent.Allow, Tier: 1, Priority: 4},
	}
	w.a.apply()
	Expect(t, p[2].Netns, "tcp4", at(p[0].Address, 9090), "admin")
	ExpectNothing(t, p[1].Netns, "tcp4", at(p[0].Address, 9090))
	Expect(t, w.a.Netns, "tcp4", at(p[0].Address, 9090), "admin")
	// Without ACLs again, all is open.
	w.a.endpoint(p[0]).ACLs = nil
	w.a.apply()
	Expect(t, p[1].Netns, "tcp4", at(p[0].Address, 9090), "admin")
}

// TestSpoofing: a pod that takes an address or MAC that is not its own is not
// heard.
func TestSpoofing(t *testing.T) {
	w := newTwoHosts(t)
	p := w.pods
	spoof := netip.MustParseAddr("10.244.1.99")
	addAddress(t, p[0].Netns, netip.PrefixFrom(spoof, 32))
	addAddress(t, p[0].Netns, netip.PrefixFrom(p[1].Address, 32)) // that of its neighbour
	// Let replies find the spoofer, so that only the rule stands in the way.
	addRoute(t, w.a.Netns, netip.PrefixFrom(spoof, 32), w.a.endpoint(p[0]).ID)
	for _, from := range []netip.Addr{spoof, p[1].Address} {
		if got, client, err := askFrom(t, p[0].Netns, "udp4", at(from, 40000), at(p[2].Address, 53),
			refusal); err == nil {
			t.Errorf("%s answered the spoofed client %s", got, client)
		}
	}
	Expect(t, p[0].Netns, "udp4", at(p[2].Address, 53), p[2].Name)
	setMAC(t, p[0].Netns, "eth0", "00:15:5d:66:66:66")
	ExpectNothing(t, p[0].Netns, "udp4", at(p[2].Address, 53))
	setMAC(t, p[0].Netns, "eth0", w.a.endpoint(p[0]).MAC)
	Expect(t, p[0].Netns, "udp4", at(p[2].Address, 53), p[2].Name)
	// Nor may any other sender pretend to be one of the host's pods. The reply
	// would go to the real pod, so check what arrives.
	heard := listen(t, p[1].Netns, at(p[1].Address, 54))
	if err := send(t, w.lab.Machine, at(netip.MustParseAddr("10.89.0.1"), 40000), at(p[1].Address, 54)); err != nil {
		t.Fatal(err)
	}
	if from := <-heard; from.Addr() != netip.MustParseAddr("10.89.0.1") {
		t.Fatalf("heard %s", from)
	}
	addAddress(t, w.lab.Machine, netip.PrefixFrom(p[0].Address, 32))
	if err := send(t, w.lab.Machine, at(p[0].Address, 40000), at(p[1].Address, 54)); err != nil {
		t.Fatal(err)
	}
	select {
	case from := <-heard:
		t.Errorf("heard %s from outside", from)
	case <-time.After(refusal):
	}
}

// TestLoopbackIsPrivate: the emulator's servers listen on the host's loopback
// device; no pod may reach them, however it sends.
func TestLoopbackIsPrivate(t *testing.T) {
	w := newTwoHosts(t)
	loopback := netip.MustParseAddr("127.0.0.1")
	Serve(t, w.a.Netns, "hns", "tcp4", at(loopback, 10270))
	Serve(t, w.a.Netns, "hns", "udp4", at(loopback, 10270))
	Serve(t, w.a.Netns, "kubelet", "tcp4", at(w.a.Address, 10250))
	Expect(t, w.a.Netns, "tcp4", at(loopback, 10270), "hns")
	Expect(t, w.pods[0].Netns, "tcp4", at(w.a.Address, 10250), "kubelet")
	pod := w.pods[0].Netns
	for _, to := range []netip.Addr{loopback, w.a.Address, netip.MustParseAddr("10.244.1.1"),
		netip.MustParseAddr("10.244.1.2")} {
		ExpectNothing(t, pod, "tcp4", at(to, 10270))
	}
	// Force the packet onto the wire, and let the host accept it if it would.
	s, err := kernel.Open(pod)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, set := range [][2]string{{"net/ipv4/conf/eth0/route_localnet", "1"},
		{"net/ipv4/conf/all/route_localnet", "1"}} {
		if err := s.Sysctl(set[0], set[1]); err != nil {
			t.Fatal(err)
		}
	}
	host, err := kernel.Open(w.a.Netns)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	if err := host.Sysctl("net/ipv4/conf/all/route_localnet", "1"); err != nil {
		t.Fatal(err)
	}
	removeLocalRoute(t, pod)
	ExpectNothing(t, pod, "udp4", at(loopback, 10270))
	ExpectNothing(t, pod, "tcp4", at(loopback, 10270))
}

func TestMetadataServiceIsBlocked(t *testing.T) {
	w := newTwoHosts(t)
	metadata := netip.MustParseAddr("169.254.169.254")
	Serve(t, behindMachine(t, w.lab, metadata), "credentials", "tcp4", at(metadata, 80))
	Expect(t, w.a.Netns, "tcp4", at(metadata, 80), "credentials") // the way is open
	ExpectNothing(t, w.pods[0].Netns, "tcp4", at(metadata, 80))
}

// TestGateways: the gateway addresses answer, an unused address is refused at
// once, and a pod may have the second address.
func TestGateways(t *testing.T) {
	w := newTwoHosts(t)
	for _, g := range []string{"10.244.1.1", "10.244.1.2"} {
		Serve(t, w.a.Netns, "gateway", "tcp4", at(netip.MustParseAddr(g), 700))
		Expect(t, w.pods[0].Netns, "tcp4", at(netip.MustParseAddr(g), 700), "gateway")
	}
	if _, _, err := ask(t, w.pods[0].Netns, "tcp4", at(netip.MustParseAddr("10.244.1.77"), 8080)); !errors.Is(err,
		unix.EHOSTUNREACH) {
		t.Errorf("ask an address that no endpoint has: got %v, want %v", err, unix.EHOSTUNREACH)
	}
	second := w.a.pod(2)
	w.a.apply()
	Serve(t, second.Netns, second.Name, "tcp4", at(second.Address, 8080))
	Expect(t, w.pods[0].Netns, "tcp4", at(second.Address, 8080), second.Name)
	Expect(t, w.pods[0].Netns, "tcp4", at(w.pods[2].Address, 8080), w.pods[2].Name)
}

// TestHostEndpoint is flannel's cbr0_ep: an adapter of the host on the pods'
// network.
func TestHostEndpoint(t *testing.T) {
	w := newTwoHosts(t)
	a := netip.MustParseAddr("10.244.1.2")
	w.a.Intent.Endpoints = append(w.a.Intent.Endpoints, intent.Endpoint{
		ID:           "host-ep",
		NetworkID:    networkID,
		HostAttached: true,
		MAC:          "00-15-5D-00-00-02",
		Addresses:    []netip.Prefix{netip.PrefixFrom(a, 24)},
	})
	w.a.apply()
	Serve(t, w.a.Netns, "host", "tcp4", at(a, 700))
	Expect(t, w.pods[0].Netns, "tcp4", at(a, 700), "host")
	Expect(t, w.pods[2].Netns, "tcp4", at(a, 700), "host")
	w.a.Intent.Endpoints = w.a.Intent.Endpoints[:2]
	w.a.apply()
	Expect(t, w.pods[0].Netns, "tcp4", at(w.pods[2].Address, 8080), w.pods[2].Name)
}

// TestTwoEndpointsInOneNamespace: the first one's default route stays, also
// when the second goes.
func TestTwoEndpointsInOneNamespace(t *testing.T) {
	w := newTwoHosts(t)
	p := w.pods
	second := w.a.pod(30)
	w.a.endpoint(second).NamespaceID = p[0].Name
	w.a.apply()
	Serve(t, p[0].Netns, "second", "tcp4", at(second.Address, 700))
	Expect(t, p[2].Netns, "tcp4", at(p[0].Address, 8080), p[0].Name)
	Expect(t, p[1].Netns, "tcp4", at(second.Address, 700), "second")
	w.a.remove(second)
	w.a.apply()
	Expect(t, p[2].Netns, "tcp4", at(p[0].Address, 8080), p[0].Name)
	Expect(t, p[0].Netns, "tcp4", at(p[2].Address, 8080), p[2].Name)
}
