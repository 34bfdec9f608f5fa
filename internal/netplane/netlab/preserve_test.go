// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// TestPreserveDestination: backends see the front end's address as the destination, and their answers come from it,
// in TCP of both families and in UDP.
func TestPreserveDestination(t *testing.T) {
	w := newDual(t)
	backend, other := w.pods[0], w.pods[1]
	front, front6 := netip.MustParseAddr("10.90.0.1"), netip.MustParseAddr("fd00:10:90::1")
	before := w.a.Intent.LoadBalancers
	w.a.service("web", front, intent.TCP, 80, 9090, backend.Address)
	w.a.service("dns", front, intent.UDP, 53, 9053, backend.Address)
	w.a.service("web6", front6, intent.TCP, 80, 9090, six(backend.Address))
	for i := range w.a.Intent.LoadBalancers {
		lb := &w.a.Intent.LoadBalancers[i]
		lb.DSR, lb.UseMux, lb.PreserveDIP, lb.VIPExternalIP = true, true, true, true
		lb.IPv6 = lb.VIPs[0] == front6
	}
	w.a.apply()
	serveDestination(t, backend.Netns, 9090)
	Serve(t, backend.Netns, front.String(), "udp4", at(front, 9053))
	run(t, w.lab.Machine, "ip", "route", "add", front.String(), "via", w.a.Address.String())
	run(t, w.lab.Machine, "ip", "route", "add", front6.String(), "via", six(w.a.Address).String())

	machine6 := w.lab.Fabric.Plan().MachineAddress6.Addr()
	for _, from := range []struct {
		netns           string
		address, second netip.Addr
	}{
		{w.lab.Machine, netip.MustParseAddr("10.89.0.1"), machine6},
		{w.a.Netns, w.a.Address, six(w.a.Address)},
		{other.Netns, other.Address, six(other.Address)},
	} {
		for _, ask := range []struct {
			network string
			to      netip.AddrPort
			client  netip.Addr
		}{
			{"tcp4", at(front, 80), from.address},
			{"udp4", at(front, 53), from.address},
			{"tcp6", at(front6, 80), from.second},
		} {
			client := Expect(t, from.netns, ask.network, ask.to, ask.to.Addr().String())
			if client != ask.client.String() {
				t.Errorf("%s %s sees %s as %s", ask.network, ask.to, ask.client, client)
			}
		}
	}
	// The pod's own address still answers, and it uses the front end's for nothing else.
	Expect(t, other.Netns, "tcp4", at(backend.Address, 8080), backend.Name)
	if _, _, err := askFrom(t, backend.Netns, "tcp4", at(front, 1234), at(other.Address, 8080), refusal); err == nil {
		t.Error("the backend reaches another pod as the front end")
	}

	w.a.Intent.LoadBalancers = before
	w.a.apply()
	ExpectNothing(t, w.lab.Machine, "tcp4", at(front, 80))
	for _, argv := range []string{"ip neighbour show", "ip -6 neighbour show"} {
		if out := run(t, w.a.Netns, strings.Fields(argv)...); strings.Contains(out, "10.90.0.1 ") ||
			strings.Contains(out, front6.String()) {
			t.Errorf("%s, after the service has gone:\n%s", argv, out)
		}
	}
	if out := run(t, backend.Netns, "ip", "route", "show", "table", "local"); strings.Contains(out, front.String()) {
		t.Errorf("the pod still accepts %s:\n%s", front, out)
	}
}

// serveDestination answers connections to any address of the namespace: which it was, and the client's.
func serveDestination(t *testing.T, netns string, port uint16) {
	t.Helper()
	var l net.Listener
	if err := in(t, netns, func() (err error) {
		l, err = net.Listen("tcp", at(netip.IPv6Unspecified(), port).String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			// The client sees it if this fails.
			_, _ = fmt.Fprintf(c, "%s %s\n", host(c.LocalAddr()), host(c.RemoteAddr()))
			_ = c.Close()
		}
	}()
}
