// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

const testVSID = 4096

// overlay makes the host's network an Overlay, as flanneld and win-overlay do: the fabric routes no pods.
func (h *labHost) overlay(l *Lab) {
	h.t.Helper()
	if err := fabric.OpenRouter(l.Fabric.Plan().Namespace).SetPrefixes(h.t.Context(), h.Address, nil); err != nil {
		h.t.Fatal(err)
	}
	n := &h.Intent.Networks[0]
	n.Type, n.Subnets[0].VSID = intent.Overlay, testVSID
	n.DRMAC = fmt.Sprintf("00-15-5D-FF-00-%02X", h.Address.As4()[3])
}

// overlayPod is pod with the gateway and the exceptions of the overlay guides: traffic to the nodes is rewritten.
func (h *labHost) overlayPod(last byte) *pod {
	p := h.pod(last)
	e := h.endpoint(p)
	e.Gateway = h.Pods.Addr().Next()
	e.OutboundNAT = []intent.OutboundNAT{{Exceptions: []netip.Prefix{
		netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("10.96.0.0/16"),
	}}}
	return p
}

// sourceVIP is the address that kube-proxy reserves.
func (h *labHost) sourceVIP() netip.Addr { return h.Pods.Addr().Next().Next() }

// remote is the route to another host's pods.
func (h *labHost) remote() intent.RemoteSubnet {
	return intent.RemoteSubnet{
		Prefix:          h.Pods,
		VSID:            testVSID,
		ProviderAddress: h.Address,
		DRMAC:           h.Intent.Networks[0].DRMAC,
	}
}

// newOverlay is newTwoHosts with an overlay between the hosts, and a third host that is not in it.
func newOverlay(t testing.TB) (*twoHosts, *labHost) {
	t.Helper()
	l := newLab(t)
	w := &twoHosts{lab: l, a: l.host(), b: l.host()}
	stranger := l.host()
	for _, h := range []*labHost{w.a, w.b, stranger} {
		h.overlay(l)
	}
	w.pods = [4]*pod{w.a.overlayPod(5), w.a.overlayPod(6), w.b.overlayPod(5), w.b.overlayPod(6)}
	w.a.Intent.Networks[0].RemoteSubnets = []intent.RemoteSubnet{w.b.remote()}
	w.b.Intent.Networks[0].RemoteSubnets = []intent.RemoteSubnet{w.a.remote()}
	w.apply()
	stranger.apply()
	for _, p := range w.pods {
		Serve(t, p.Netns, p.Name, "tcp4", at(p.Address, 8080))
		Serve(t, p.Netns, p.Name, "udp4", at(p.Address, 53))
	}
	return w, stranger
}

func TestOverlayPodToPod(t *testing.T) {
	w, _ := newOverlay(t)
	wire := capture(t, w.lab.Fabric.Plan().Namespace)
	for _, from := range w.pods {
		for _, to := range w.pods {
			if from == to {
				continue
			}
			for network, port := range map[string]uint16{"tcp4": 8080, "udp4": 53} {
				client := Expect(t, from.Netns, network, at(to.Address, port), to.Name)
				if client != from.Address.String() {
					t.Errorf("%s sees %s as %s", to.Name, from.Name, client)
				}
			}
		}
		if got := mtu(t, from.Netns); got != 1450 {
			t.Errorf("%s has MTU %d, want 1450", from.Name, got)
		}
	}
	// A host reaches its own pods only, and the machine, which is not in the overlay, none.
	Expect(t, w.a.Netns, "tcp4", at(w.pods[0].Address, 8080), w.pods[0].Name)
	// What a pod sends out of the overlay has the host's address, or does not leave.
	Serve(t, w.lab.Machine, "machine", "tcp4", at(netip.MustParseAddr("10.89.0.1"), 6443))
	if client := Expect(t, w.pods[0].Netns, "tcp4", at(netip.MustParseAddr("10.89.0.1"), 6443),
		"machine"); client != w.a.Address.String() {
		t.Errorf("the machine sees a pod as %s", client)
	}
	w.a.endpoint(w.pods[0]).OutboundNAT = nil
	w.a.apply()
	ExpectNothing(t, w.pods[0].Netns, "tcp4", at(netip.MustParseAddr("10.89.0.1"), 6443))
	checkWire(t, wire())
	wire = capture(t, w.lab.Fabric.Plan().Namespace)
	ExpectNothing(t, w.a.Netns, "tcp4", at(w.pods[2].Address, 8080))
	for _, packet := range wire() {
		if strings.Contains(packet, "vxlan") || strings.Contains(packet, "10.244.") {
			t.Errorf("a program of the host sends to a pod of another one: %s", packet)
		}
	}
	ExpectNothing(t, w.lab.Machine, "tcp4", at(w.pods[0].Address, 8080))
}

// TestOverlayBulk: large transfers fit into the tunnel in both directions.
func TestOverlayBulk(t *testing.T) {
	w, _ := newOverlay(t)
	for _, pair := range [][2]*pod{{w.pods[0], w.pods[2]}, {w.pods[2], w.pods[0]}} {
		serveEcho(t, pair[1].Netns, at(pair[1].Address, 7))
		c := dial(t, pair[0].Netns, at(pair[1].Address, 7))
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		const total = 4 << 20
		go func() { _, _ = c.Write(make([]byte, total)) }() // the reader sees if it fails
		for got := 0; got < total; {
			n, err := c.Read(make([]byte, 1<<16))
			if err != nil {
				t.Fatalf("%s to %s: after %d bytes: %v", pair[0].Name, pair[1].Name, got, err)
			}
			got += n
		}
		_ = c.Close() // all was read
	}
}

func TestOverlayServices(t *testing.T) {
	w, _ := newOverlay(t)
	p := w.pods
	for _, h := range []*labHost{w.a, w.b} {
		h.Intent.Endpoints = append(h.Intent.Endpoints, intent.Endpoint{
			ID: h.Name + "-source-vip", NetworkID: networkID, MAC: h.Intent.Uplink.MAC,
			Addresses: []netip.Prefix{netip.PrefixFrom(h.sourceVIP(), 24)},
		})
		h.service("web", vip, intent.TCP, 80, 8080, p[0].Address, p[2].Address)
		h.service("node", netip.Addr{}, intent.TCP, 30080, 8080, p[0].Address, p[2].Address)
		for i := range h.Intent.LoadBalancers {
			h.Intent.LoadBalancers[i].SourceVIP = h.sourceVIP()
		}
	}
	w.apply()
	for _, from := range []*pod{p[1], p[3]} {
		for name, client := range collect(t, from.Netns, "tcp4", at(vip, 80), p[0].Name, p[2].Name) {
			if client != from.Address.String() {
				t.Errorf("%s sees %s as %s", name, from.Name, client)
			}
		}
	}
	seen := collect(t, w.lab.Machine, "tcp4", at(w.a.Address, 30080), p[0].Name, p[2].Name)
	for name, got := range seen {
		if got != w.a.sourceVIP().String() {
			t.Errorf("%s sees the client as %s, want the source VIP", name, got)
		}
	}
	// A program of the host reaches both by the load balancer, which gives it the source VIP.
	collect(t, w.a.Netns, "tcp4", at(vip, 80), p[0].Name, p[2].Name)
	// A pod reaches the other host's node port.
	collect(t, p[1].Netns, "tcp4", at(w.b.Address, 30080), p[0].Name, p[2].Name)
}

// TestOverlayForgery: only the other hosts of the overlay send into it, each from its own range.
func TestOverlayForgery(t *testing.T) {
	w, stranger := newOverlay(t)
	victim := w.pods[0]
	box := collectDatagrams(t, victim.Netns, at(victim.Address, 5353))
	send := func(netns string, to netip.Addr, frame []byte) {
		t.Helper()
		sendDatagram(t, netns, at(to, 4789), frame)
	}
	frame := func(text string, from netip.Addr) []byte {
		return vxlanFrame(testVSID, w.a.Intent.Networks[0].DRMAC, from, victim.Address, 5353, text)
	}
	other := w.pods[2]
	// That the frames are well made: the other host may send them.
	untilArrived := func(text string) {
		t.Helper()
		for deadline := time.Now().Add(patience); !slices.Contains(box(), text); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%q does not arrive", text)
			}
			send(w.b.Netns, w.a.Address, frame(text, other.Address))
		}
	}
	untilArrived("genuine")
	// Nodes that are not in the overlay, and the machine.
	send(stranger.Netns, w.a.Address, frame("stranger", other.Address))
	send(stranger.Netns, w.a.Address, frame("stranger, own range", stranger.Pods.Addr().Next()))
	send(w.lab.Machine, w.a.Address, frame("machine", other.Address))
	// The other host, with addresses that are not its own.
	send(w.b.Netns, w.a.Address, frame("peer as a pod of this host", w.pods[1].Address))
	send(w.b.Netns, w.a.Address, frame("peer as a third host's pod", stranger.Pods.Addr().Next()))
	send(w.b.Netns, w.a.Address, frame("peer as a node", w.b.Address))
	send(w.b.Netns, w.a.Address, vxlanFrame(testVSID+1, w.a.Intent.Networks[0].DRMAC, other.Address, victim.Address,
		5353, "other VSID"))
	// The other host, to what its pods do not reach through the tunnel.
	w.a.service("inner", vip.Next(), intent.UDP, 5353, 5353, victim.Address)
	w.a.apply()
	send(w.b.Netns, w.a.Address, vxlanFrame(testVSID, w.a.Intent.Networks[0].DRMAC, other.Address, vip.Next(), 5353,
		"peer to a service"))
	w.a.Intent.LoadBalancers = nil
	// Pods: to their own host, to another one, through a service that leads there, and through another host.
	for _, h := range []*labHost{w.a, w.b} {
		h.service("forge", vip, intent.UDP, 4789, 4789, w.a.Address)
		h.service("forge-port", netip.Addr{}, intent.UDP, 30789, 4789, w.a.Address)
		h.Intent.LoadBalancers[0].SourceVIP, h.Intent.LoadBalancers[1].SourceVIP = h.Address, h.Address
	}
	w.apply()
	send(w.pods[1].Netns, w.a.Address, frame("pod of the host", other.Address))
	send(other.Netns, w.a.Address, frame("pod of the other host", other.Address))
	send(other.Netns, vip, frame("pod by a service", other.Address))
	sendDatagram(t, other.Netns, at(w.b.Address, 30789), frame("pod by a node port", other.Address))
	sendDatagram(t, w.lab.Machine, at(w.b.Address, 30789), frame("machine by a node port", other.Address))
	// What was sent last arrives last.
	untilArrived("last")
	for _, text := range box() {
		if text != "genuine" && text != "last" {
			t.Errorf("the pod received %q", text)
		}
	}
}

// TestOverlayChanges: a host that leaves is gone, one that comes is reached, and connections between the others
// go on.
func TestOverlayChanges(t *testing.T) {
	w, c := newOverlay(t)
	third := c.overlayPod(5)
	c.apply()
	Serve(t, third.Netns, third.Name, "tcp4", at(third.Address, 8080))
	serveEcho(t, w.pods[2].Netns, at(w.pods[2].Address, 7))
	open := dial(t, w.pods[0].Netns, at(w.pods[2].Address, 7))
	defer func() { _ = open.Close() }() // all was read
	hosts := []*labHost{w.a, w.b, c}
	mesh := func(members ...*labHost) {
		t.Helper()
		for _, h := range hosts {
			h.Intent.Networks[0].RemoteSubnets = nil
			for _, m := range members {
				if m != h && slices.Contains(members, h) {
					h.Intent.Networks[0].RemoteSubnets = append(h.Intent.Networks[0].RemoteSubnets, m.remote())
				}
			}
			h.apply()
		}
		if err := open.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := open.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if _, err := open.Read(make([]byte, 1)); err != nil {
			t.Fatalf("the connection between the first two hosts: %v", err)
		}
	}
	mesh(hosts...)
	Expect(t, w.pods[0].Netns, "tcp4", at(third.Address, 8080), third.Name)
	Expect(t, third.Netns, "tcp4", at(w.pods[3].Address, 8080), w.pods[3].Name)
	mesh(w.a, w.b)
	ExpectNothing(t, w.pods[0].Netns, "tcp4", at(third.Address, 8080))
	ExpectNothing(t, third.Netns, "tcp4", at(w.pods[3].Address, 8080))
}

// mtu returns that of the pod's adapter.
func mtu(t *testing.T, netns string) int {
	t.Helper()
	n := 0
	if err := in(t, netns, func() error {
		i, err := net.InterfaceByName("eth0")
		if err == nil {
			n = i.MTU
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// vxlanFrame makes a VXLAN packet (RFC 7348) with a UDP datagram in it.
func vxlanFrame(vsid uint32, router string, from, to netip.Addr, port uint16, text string) []byte {
	hw, _ := net.ParseMAC(router) // the caller's is one
	b := binary.BigEndian.AppendUint32([]byte{8, 0, 0, 0}, vsid<<8)
	b = append(append(b, hw...), 0, 0x15, 0x5d, 1, 2, 3, 8, 0)
	src, dst := from.As4(), to.As4()
	ip := []byte{0x45, 0, 0, byte(28 + len(text)), 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}
	ip = append(append(ip, src[:]...), dst[:]...)
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	udp := binary.BigEndian.AppendUint16([]byte{0x30, 0x39}, port)
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(text)))
	udp = append(udp, 0, 0) // no checksum
	return append(append(append(b, ip...), udp...), text...)
}

// checkWire fails the test if an address of a pod is seen on the fabric, or nothing is seen in tunnels.
func checkWire(t *testing.T, packets []string) {
	t.Helper()
	inTunnel := 0
	for _, p := range packets {
		if strings.Contains(p, "10.244.") {
			t.Errorf("on the wire: %s", p)
		}
		if strings.Contains(p, fmt.Sprintf("vxlan %d", testVSID)) {
			inTunnel++
		}
	}
	if inTunnel == 0 {
		t.Errorf("nothing was sent through the tunnel; on the wire: %q", packets)
	}
}
