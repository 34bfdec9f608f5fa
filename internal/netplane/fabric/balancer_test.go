// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
)

// balanced is a fabric whose hosts all have the address of a load balancer, as if kube-proxy
// had given it to a program of theirs.
type balanced struct {
	*machine
	balancer *fabric.Balancer
	front    fabric.Front
	hosts    []string // namespaces
	vip      string
}

const vip = "10.90.0.1"

func newBalanced(t *testing.T) *balanced {
	m := newMachine(t)
	f := m.fabric("lb", 0)
	apply(t, f)
	p := f.Plan()
	b := &balanced{machine: m, vip: vip, balancer: fabric.OpenBalancer(p.Namespace, p.NodeNet, p.Pool)}
	b.front = fabric.Front{Address: netip.MustParseAddr(vip), Protocol: "tcp", Port: 80}
	for i := range 2 {
		name := fmt.Sprintf("host-%d", i+1)
		host := netlab.Namespace(t, filepath.Join(m.dir, name))
		at := netlab.HostAddress(f.Plan(), i+1)
		if err := f.Connect(t.Context(), fabric.Attachment{Node: name, Netns: host, Address: at}); err != nil {
			t.Fatal(err)
		}
		run(t, host, "ip", "address", "add", vip+"/32", "dev", "lo")
		b.hosts = append(b.hosts, host)
		b.front.Nodes = append(b.front.Nodes, fabric.Target{Address: at.Addr(), Fit: true})
		b.echo(host, name)
	}
	return b
}

// echo answers each line on TCP with the host's name and the client's address.
func (b *balanced) echo(host, name string) {
	b.t.Helper()
	var l net.Listener
	err := kernel.Do(host, func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(b.vip, "80"))
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewScanner(c); r.Scan(); {
					_, _ = fmt.Fprintln(c, name, c.RemoteAddr())
				}
			}()
		}
	}()
}

// client is a connection to the front end.
type client struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func (b *balanced) dial(netns string) (*client, error) {
	b.t.Helper()
	var c net.Conn
	err := kernel.Do(netns, func() (err error) {
		c, err = net.DialTimeout("tcp", net.JoinHostPort(b.vip, "80"), 5*time.Second)
		return err
	})
	if err != nil {
		return nil, err
	}
	b.t.Cleanup(func() { _ = c.Close() })
	return &client{b.t, c, bufio.NewReader(c)}, nil
}

func (b *balanced) connect(netns string) *client {
	b.t.Helper()
	c, err := b.dial(netns)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// host says which host answers on the connection.
func (c *client) host() string {
	c.t.Helper()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := io.WriteString(c, "?\n"); err != nil {
		c.t.Fatal(err)
	}
	line, err := c.r.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	name, from, _ := strings.Cut(strings.TrimSpace(line), " ")
	if from != c.LocalAddr().String() {
		c.t.Errorf("%s saw the client %s, want %s", name, from, c.LocalAddr())
	}
	return name
}

func (b *balanced) set(fronts ...fabric.Front) {
	b.t.Helper()
	if err := b.balancer.Set(b.t.Context(), fronts); err != nil {
		b.t.Fatal(err)
	}
}

// TestBalancer: connections from the machine and from a node spread over the fit nodes, with the client's
// own address, and stay where they are when that changes.
func TestBalancer(t *testing.T) {
	b := newBalanced(t)
	if _, err := b.dial(b.netns); err == nil {
		t.Fatal("an address without a Service answered")
	}
	b.set(b.front)
	open := map[string]*client{}
	for range 64 {
		c := b.connect(b.netns)
		open[c.host()] = c
	}
	if len(open) != 2 {
		t.Fatalf("64 connections went to %v only", open)
	}
	// host-1 is not fit any more: it keeps what it has.
	b.front.Nodes[0].Fit = false
	b.set(b.front)
	for range 32 {
		if got := b.connect(b.netns).host(); got != "host-2" {
			t.Fatalf("a new connection went to %s", got)
		}
	}
	for name, c := range open {
		if got := c.host(); got != name {
			t.Errorf("the connection to %s went to %s", name, got)
		}
	}
	// Nor does a connection move when it is fit again, or when the control plane starts again and knows nothing.
	b.front.Nodes[0].Fit = true
	f := b.balancer
	b.balancer = fabric.OpenBalancer(filepath.Join(b.dir, "netns", "mullion-lb"), netip.MustParsePrefix("10.89.0.0/24"),
		netip.MustParsePrefix("10.90.0.0/24"))
	b.set(b.front)
	for name, c := range open {
		if got := c.host(); got != name {
			t.Errorf("after a new start, the connection to %s went to %s", name, got)
		}
	}
	// The node goes, and with it what it had; the other's goes on.
	b.balancer = f
	b.front.Nodes = b.front.Nodes[1:]
	b.set(b.front)
	if got := open["host-2"].host(); got != "host-2" {
		t.Errorf("the connection to host-2 went to %s", got)
	}
	b.set()
	if _, err := b.dial(b.netns); err == nil {
		t.Error("the address answers although the Service is gone")
	}
}

func TestBalancerSources(t *testing.T) {
	b := newBalanced(t)
	b.front.Sources = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("10.89.0.1/32")}
	b.set(b.front)
	b.connect(b.netns).host()
	b.front.Sources = b.front.Sources[:1]
	b.set(b.front)
	netlab.ExpectNothing(t, b.netns, "tcp4", netip.MustParseAddrPort(vip+":80"))
}

// TestBalancerByClient: session affinity chooses by the client's address.
func TestBalancerByClient(t *testing.T) {
	b := newBalanced(t)
	b.front.ByClient = true
	b.set(b.front)
	first := b.connect(b.netns).host()
	for range 16 {
		if got := b.connect(b.netns).host(); got != first {
			t.Fatalf("one client was sent to %s and %s", first, got)
		}
	}
}

// datagrams returns a function that sends a datagram of some size to the front end, from the same port each time, and
// says which host answers.
func (b *balanced) datagrams(from string) func(size int) (string, error) {
	b.t.Helper()
	b.front.Protocol = "udp"
	to := netip.AddrPortFrom(netip.MustParseAddr(b.vip), 80)
	network := "udp6"
	if to.Addr().Is4() {
		network = "udp4"
	}
	for i, h := range b.hosts {
		netlab.Serve(b.t, h, fmt.Sprintf("host-%d", i+1), network, to)
	}
	var c *net.UDPConn
	err := kernel.Do(from, func() (err error) {
		c, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close() })
	return func(size int) (string, error) {
		if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			return "", err
		}
		if _, err := c.Write(make([]byte, size)); err != nil {
			return "", err
		}
		buf := make([]byte, 100)
		n, err := c.Read(buf)
		name, _, _ := strings.Cut(string(buf[:n]), " ")
		return name, err
	}
}

// TestBalancerDatagrams: a client that keeps its port does not stick to a node that is not fit.
func TestBalancerDatagrams(t *testing.T) {
	b := newBalanced(t)
	send := b.datagrams(b.netns)
	ask := func() string {
		t.Helper()
		name, err := send(1)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	b.set(b.front)
	first := ask()
	for range 8 {
		if got := ask(); got != first {
			t.Fatalf("one flow went to %s and %s", first, got)
		}
	}
	for i := range b.front.Nodes {
		b.front.Nodes[i].Fit = fmt.Sprintf("host-%d", i+1) != first
	}
	b.set(b.front)
	if got := ask(); got == first {
		t.Errorf("the flow sticks to %s, which is not fit", got)
	}
}

// TestBalancerFragments: all fragments of a datagram go to the node that the first one went to.
func TestBalancerFragments(t *testing.T) {
	b := newBalanced(t)
	send := b.datagrams(b.netns)
	// Who may not send a datagram may not send a part of one.
	b.front.Sources = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	b.set(b.front)
	if got, err := send(4000); err == nil {
		t.Errorf("%s got a datagram from a client that may not send", got)
	}
	b.front.Sources = nil
	b.set(b.front)
	whole, err := send(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1472, 1473, 4000, 60_000} {
		if got, err := send(size); err != nil || got != whole {
			t.Errorf("%d bytes: got %q, %v, want %s", size, got, err, whole)
		}
	}
}
