// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// tunnelLab is a worker in the network vxlan, and a place from which any node can send to it.
type tunnelLab struct {
	t             *testing.T
	worker, other string // network namespaces
}

func newTunnelLab(t *testing.T) tunnelLab {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Nft)
	l := tunnelLab{t, filepath.Join(t.TempDir(), "worker"), filepath.Join(t.TempDir(), "other")}
	for _, ns := range []string{l.other, l.worker} {
		if err := kernel.CreateNamespace(ns, nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := kernel.DeleteNamespace(ns); err != nil {
				t.Error(err)
			}
		})
	}
	there, err := kernel.Open(l.other)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	l.in(l.worker, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = fabric.Uplink
		return errors.Join(netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "far",
			PeerNamespace: netlink.NsFd(there.Handle())}), address(fabric.Uplink, "10.89.0.110/24"))
	})
	l.in(l.other, func() error {
		return errors.Join(address("far", "10.89.0.11/24"), address("far", "10.89.0.12/24"),
			address("far", "10.89.0.13/24"))
	})
	return l
}

func (l tunnelLab) in(ns string, f func() error) {
	l.t.Helper()
	if err := kernel.Do(ns, f); err != nil {
		l.t.Fatal(err)
	}
}

func address(link, prefix string) error {
	dev, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	a, err := netlink.ParseAddr(prefix)
	if err != nil {
		return err
	}
	return errors.Join(netlink.AddrAdd(dev, a), netlink.LinkSetUp(dev))
}

// device makes what flanneld makes: the device, and for each peer a route, a neighbour and a forwarding entry.
func (l tunnelLab) device(peers []peer) {
	l.in(l.worker, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = fmt.Sprintf("flannel.%d", agent.FlannelVNI)
		if err := netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: attrs, VxlanId: agent.FlannelVNI, Port: agent.FlannelPort,
			SrcAddr: net.IPv4(10, 89, 0, 110)}); err != nil {
			return err
		}
		if err := address(attrs.Name, "10.244.0.0/32"); err != nil {
			return err
		}
		link, err := netlink.LinkByName(attrs.Name)
		if err != nil {
			return err
		}
		for i, p := range peers {
			mac := net.HardwareAddr{2, 0, 0, 0, 0, byte(i + 1)}
			gateway := net.IP(p.pods.Addr().AsSlice())
			index := link.Attrs().Index
			if err := errors.Join(
				netlink.NeighSet(&netlink.Neigh{LinkIndex: index, State: netlink.NUD_PERMANENT, IP: gateway,
					HardwareAddr: mac}),
				netlink.NeighAppend(&netlink.Neigh{LinkIndex: index, State: netlink.NUD_PERMANENT,
					Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF, IP: net.IP(p.node.AsSlice()), HardwareAddr: mac}),
				netlink.RouteAdd(&netlink.Route{LinkIndex: index, Gw: gateway, Flags: int(netlink.FLAG_ONLINK),
					Dst: &net.IPNet{IP: gateway, Mask: net.CIDRMask(p.pods.Bits(), 32)}})); err != nil {
				return err
			}
		}
		return nil
	})
}

// arrived sends a packet from a node, with an address inside, and returns how many come out of the tunnel.
func (l tunnelLab) arrived(node, inner netip.Addr) uint64 {
	l.t.Helper()
	count := func() (n uint64) {
		l.in(l.worker, func() error {
			link, err := netlink.LinkByName(fmt.Sprintf("flannel.%d", agent.FlannelVNI))
			if err == nil {
				n = link.Attrs().Statistics.RxPackets
			}
			return err
		})
		return n
	}
	before := count()
	l.in(l.other, func() error {
		conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IP(node.AsSlice())},
			&net.UDPAddr{IP: net.IPv4(10, 89, 0, 110), Port: agent.FlannelPort})
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write(encapsulated(inner))
		return err
	})
	time.Sleep(50 * time.Millisecond) // the packet is there at once; what does not come, never comes
	return count() - before
}

// encapsulated is a VXLAN packet with an empty IPv4 packet inside.
func encapsulated(source netip.Addr) []byte {
	b := []byte{8, 0, 0, 0}
	b = binary.BigEndian.AppendUint32(b, agent.FlannelVNI<<8)
	b = append(b, 2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0)
	b = append(b, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0)
	b = append(b, source.AsSlice()...)
	return append(b, 10, 244, 0, 5)
}

// TestTunnelTakesWhatIsThePeers: a node sends with the addresses of its own pods inside, and no others.
func TestTunnelTakesWhatIsThePeers(t *testing.T) {
	l := newTunnelLab(t)
	peers := []peer{
		{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParseAddr("10.89.0.11")},
		{netip.MustParsePrefix("10.244.2.0/24"), netip.MustParseAddr("10.89.0.12")},
	}
	l.device(peers)
	c := testConfig("/x")
	c.Network = agent.VXLAN
	var found []peer
	l.in(l.worker, func() (err error) {
		if err = (tools{(*exec.Cmd).CombinedOutput}).nft(t.Context(), rules(c)); err == nil {
			found, err = readPeers()
		}
		return err
	})
	slices.SortFunc(found, func(a, b peer) int { return a.node.Compare(b.node) })
	if !slices.Equal(found, peers) {
		t.Fatalf("peers %v, want %v", found, peers)
	}
	if n := l.arrived(peers[0].node, netip.MustParseAddr("10.244.1.7")); n != 0 {
		t.Errorf("%d packets came before a peer was known", n)
	}
	l.in(l.worker, func() error { return tools{(*exec.Cmd).CombinedOutput}.nft(t.Context(), peerRules(found)) })
	for _, p := range []struct {
		node, inner string
		want        uint64
	}{
		{"10.89.0.11", "10.244.1.7", 1},
		{"10.89.0.12", "10.244.2.7", 1},
		{"10.89.0.11", "10.244.2.7", 0}, // another node's pod
		{"10.89.0.11", "10.244.0.5", 0}, // the worker's own
		{"10.89.0.11", "10.96.0.1", 0},
		{"10.89.0.13", "10.244.1.7", 0}, // not a peer
	} {
		if got := l.arrived(netip.MustParseAddr(p.node), netip.MustParseAddr(p.inner)); got != p.want {
			t.Errorf("%s sends from %s: %d packets came, want %d", p.node, p.inner, got, p.want)
		}
	}
}
