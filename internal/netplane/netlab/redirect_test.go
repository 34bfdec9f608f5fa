// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// TestRedirects: connections of a pod, both ways, lead to its proxy, except the proxy's own and those that are
// excepted.
func TestRedirects(t *testing.T) {
	const group = 64018
	w := newTwoHosts(t)
	p, q, other := w.pods[0], w.pods[2], w.pods[3]
	every := netip.IPv4Unspecified()
	Serve(t, p.Netns, "outbound", "tcp4", at(every, 9191))
	Serve(t, p.Netns, "inbound", "tcp4", at(every, 9091))
	Serve(t, p.Netns, "admin", "tcp4", at(p.Address, 15000))
	Serve(t, q.Netns, "excepted", "tcp4", at(q.Address, 15000))
	set := func(redirects ...intent.Redirect) {
		t.Helper()
		w.a.endpoint(p).Redirects = redirects
		w.a.apply()
	}
	ports := []intent.PortRange{{First: 15000, Last: 15000}}
	out := intent.Redirect{Match: intent.ACL{Direction: intent.Out}, Port: 9191, ExceptPorts: ports,
		ExceptAddresses: []netip.Prefix{netip.PrefixFrom(other.Address, 32)}, ExceptGroups: []uint32{group}}
	inward := intent.Redirect{Match: intent.ACL{Direction: intent.In}, Port: 9091, ExceptPorts: ports}
	set(out, inward)
	for range 2 {
		Expect(t, p.Netns, "tcp4", at(q.Address, 8080), "outbound")
		Expect(t, p.Netns, "tcp4", at(q.Address, 15000), "excepted")
		Expect(t, p.Netns, "tcp4", at(other.Address, 8080), other.Name)
		Expect(t, p.Netns, "udp4", at(q.Address, 53), q.Name)
		askAs(t, p.Netns, group, at(q.Address, 8080))
		if client := Expect(t, q.Netns, "tcp4", at(p.Address, 8080), "inbound"); client != q.Address.String() {
			t.Errorf("the proxy sees the client as %s", client)
		}
		Expect(t, w.a.Netns, "tcp4", at(p.Address, 8080), "inbound")
		Expect(t, q.Netns, "tcp4", at(p.Address, 15000), "admin")
		Expect(t, w.pods[1].Netns, "tcp4", at(q.Address, 8080), q.Name)
		w.a.reopen(w.lab) // a new process leaves it as it is
		w.a.apply()
	}
	out.Match.RemotePorts = []intent.PortRange{{First: 8081, Last: 8081}}
	set(out)
	Expect(t, p.Netns, "tcp4", at(q.Address, 8080), q.Name)
	Expect(t, p.Netns, "tcp4", at(q.Address, 8081), "outbound")
	Expect(t, q.Netns, "tcp4", at(p.Address, 8080), p.Name)
	w.a.reopen(w.lab)
	set()
	Expect(t, p.Netns, "tcp4", at(q.Address, 8080), q.Name)
	ExpectNothing(t, p.Netns, "tcp4", at(q.Address, 8081))
}

// askAs fails the test unless a program of the Unix group reaches the address itself.
func askAs(t *testing.T, netns string, group int, to netip.AddrPort) {
	t.Helper()
	err := in(t, netns, func() error {
		// Of this thread only, which ends with fn: the kernel looks at who opened the socket.
		if _, _, errno := unix.RawSyscall(unix.SYS_SETFSGID, uintptr(group), 0, 0); errno != 0 {
			return errno
		}
		c, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp4", to.String())
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		answer := make([]byte, 64)
		n, err := c.Read(answer)
		if got := string(answer[:n]); err == nil && got[:4] != "win-" {
			t.Errorf("%s answered a program of group %d", got, group)
		}
		return err
	})
	if err != nil {
		t.Errorf("ask %s as group %d: %v", to, group, err)
	}
}
