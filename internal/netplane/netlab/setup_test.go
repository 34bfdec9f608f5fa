// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/mullion-k8s/mullion/internal/netplane/compile"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// openLoopback finds a namespace's loopback device.
func openLoopback(t *testing.T, netns string) (*kernel.Space, netlink.Link) {
	t.Helper()
	s, err := kernel.Open(netns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	lo, err := s.FindLink("lo")
	if err != nil {
		t.Fatal(err)
	}
	return s, lo
}

// addAddress gives the namespace's loopback device another address.
func addAddress(t *testing.T, netns string, p netip.Prefix) {
	t.Helper()
	s, lo := openLoopback(t, netns)
	if err := s.AddAddresses(lo, []netip.Prefix{p}, true); err != nil {
		t.Fatal(err)
	}
}

// behindMachine makes a computer with the address in a network that the machine is a router
// to, and returns its namespace.
func behindMachine(t *testing.T, l *Lab, address netip.Addr) string {
	t.Helper()
	outside := l.Namespace("outside")
	Run(t, l.Machine, "sysctl -q net.ipv4.ip_forward=1", "ip link add lan type veth peer name eth0 netns "+outside,
		"ip address add 198.51.100.1/24 dev lan", "ip link set lan up")
	Run(t, outside, "ip address add 198.51.100.2/24 dev eth0", "ip link set eth0 up",
		"ip route add default via 198.51.100.1")
	Run(t, l.Machine, "ip route add "+address.String()+" via 198.51.100.2")
	addAddress(t, outside, netip.PrefixFrom(address, 32))
	return outside
}

// addRoute routes the prefix to an endpoint's link.
func addRoute(t *testing.T, netns string, p netip.Prefix, endpointID string) {
	t.Helper()
	s, err := kernel.Open(netns)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := s.FindLink(compile.LinkName(endpointID))
	if err != nil || l == nil {
		t.Fatalf("find link: %v", err)
	}
	if err := s.ReplaceRoute(kernel.Route{Destination: p, LinkIndex: l.Attrs().Index}); err != nil {
		t.Fatal(err)
	}
}

// setMAC changes a MAC address, as a program with CAP_NET_ADMIN in the pod could.
func setMAC(t *testing.T, netns, link, mac string) {
	t.Helper()
	s, err := kernel.Open(netns)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := s.FindLink(link)
	if err != nil || l == nil {
		t.Fatalf("find link: %v", err)
	}
	hw, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Netlink.LinkSetHardwareAddr(l, hw); err != nil {
		t.Fatal(err)
	}
}

// removeLocalRoute makes 127.0.0.0/8 leave the namespace by its default route.
func removeLocalRoute(t *testing.T, netns string) {
	t.Helper()
	s, lo := openLoopback(t, netns)
	if err := s.KeepAddresses(lo, nil); err != nil {
		t.Fatal(err)
	}
}
