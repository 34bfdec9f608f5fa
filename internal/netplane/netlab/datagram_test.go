// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"net"
	"net/netip"
	"testing"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// TestDatagramBackendChanges acts as a DNS resolver while CoreDNS is replaced: it
// always asks from one port, and conntrack would send its packets to the backend
// that is gone.
func TestDatagramBackendChanges(t *testing.T) {
	w := newTwoHosts(t)
	p := w.pods
	client := at(p[0].Address, 40000)
	expect := func(name string) {
		t.Helper()
		got, _, err := askFrom(t, p[0].Netns, "udp4", client, at(vip, 53), patience)
		if err != nil || got != name {
			t.Fatalf("got an answer from %q, want %s (%v)", got, name, err)
		}
	}
	// Before there is a service, the client already tries.
	if got, _, err := askFrom(t, p[0].Netns, "udp4", client, at(vip, 53), refusal); err == nil {
		t.Fatalf("%s answered for a service that does not exist", got)
	}
	dns := w.a.service("dns", vip, intent.UDP, 53, 53, p[1].Address)
	w.a.apply()
	expect(p[1].Name)
	dns.Backends = []intent.Backend{{Address: p[2].Address}}
	w.a.apply()
	expect(p[2].Name)
	// The same with a new object, as kube-proxy does it below HNS 15.5.
	dns.ID, dns.Backends = "dns-2", []intent.Backend{{Address: p[3].Address}}
	w.a.apply()
	expect(p[3].Name)
	w.a.Intent.LoadBalancers = nil
	w.a.apply()
	if got, _, err := askFrom(t, p[0].Netns, "udp4", client, at(vip, 53), refusal); err == nil {
		t.Fatalf("%s answered for a service that is gone", got)
	}
}

// TestDatagramUnchangedServiceKeepsFlow makes sure that flows of other services
// are left alone.
func TestDatagramUnchangedServiceKeepsFlow(t *testing.T) {
	w := newTwoHosts(t)
	p := w.pods
	w.a.service("dns", vip, intent.UDP, 53, 53, p[1].Address, p[2].Address, p[3].Address)
	w.a.service("other", vip, intent.UDP, 54, 53, p[1].Address)
	w.a.apply()
	client := at(p[0].Address, 40001)
	first, _, err := askFrom(t, p[0].Netns, "udp4", client, at(vip, 53), patience)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		w.a.Intent.LoadBalancers[1].Backends[0].Address = p[2].Address
		w.a.apply()
		if got, _, err := askFrom(t, p[0].Netns, "udp4", client, at(vip, 53), patience); err != nil || got != first {
			t.Fatalf("the flow moved from %s to %q (%v)", first, got, err)
		}
	}
}

func TestNodePortDatagram(t *testing.T) {
	w := newTwoHosts(t)
	w.a.service("dns", netip.Addr{}, intent.UDP, 30053, 53, w.pods[0].Address)
	w.a.apply()
	client := at(netip.MustParseAddr("10.89.0.1"), 40002)
	for _, p := range []*pod{w.pods[0], w.pods[2], w.pods[1]} {
		w.a.Intent.LoadBalancers[0].Backends[0].Address = p.Address
		w.a.apply()
		if got, _, err := askFrom(t, w.lab.Machine, "udp4", client, at(w.a.Address, 30053), patience); err != nil ||
			got != p.Name {
			t.Fatalf("got an answer from %q, want %s (%v)", got, p.Name, err)
		}
	}
}

// listen reports from where datagrams arrive.
func listen(t testing.TB, netns string, at netip.AddrPort) <-chan netip.AddrPort {
	t.Helper()
	heard := make(chan netip.AddrPort, 100)
	err := in(t, netns, func() error {
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = c.Close() })
		go func() {
			defer close(heard)
			for {
				_, from, err := c.ReadFromUDPAddrPort(make([]byte, 1024))
				if err != nil {
					return
				}
				heard <- from
			}
		}()
		return nil
	})
	if err != nil {
		t.Fatalf("listen on %s in %s: %v", at, netns, err)
	}
	return heard
}

// send sends one datagram without waiting for an answer.
func send(t testing.TB, netns string, from, to netip.AddrPort) error {
	t.Helper()
	return in(t, netns, func() error {
		c, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(from), net.UDPAddrFromAddrPort(to))
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }() // nothing is left to be written
		_, err = c.Write([]byte("?"))
		return err
	})
}
