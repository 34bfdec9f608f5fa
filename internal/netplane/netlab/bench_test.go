// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/netplane/apply"
	"github.com/mullion-k8s/mullion/internal/netplane/compile"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/netplane/intent/intenttest"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// window is how long one measurement sends.
const window = 300 * time.Millisecond

// BenchmarkDataPath compares, turn by turn in one run, two pods of one host
// that talk through the host's routing alone, through our rules, and by the
// address of one of 5,000 services.
func BenchmarkDataPath(b *testing.B) {
	l := newLab(b)
	h := l.host()
	client, server := h.pod(5), h.pod(6)
	h.apply()
	serveEcho(b, server.Netns, at(server.Address, 7))
	serveSink(b, server.Netns, at(server.Address, 9))
	h.Intent.LoadBalancers = intenttest.Services(5000, 2).LoadBalancers
	h.service("echo", netip.MustParseAddr("10.96.200.1"), intent.TCP, 7, 7, server.Address)
	h.service("sink", netip.MustParseAddr("10.96.200.1"), intent.TCP, 9, 9, server.Address)
	rules := func(on bool) {
		if on {
			h.apply()
			return
		}
		dropTable(b, h)
	}
	sums := map[string]float64{}
	n := 0.0
	for b.Loop() {
		n++
		for _, way := range []struct {
			name  string
			rules bool
			to    netip.Addr
		}{{"routing", false, server.Address}, {"rules", true, server.Address},
			{"service", true, netip.MustParseAddr("10.96.200.1")}} {
			rules(way.rules)
			sums["us-round-trip/"+way.name] += roundTrip(b, client.Netns, at(way.to, 7))
			sums["us-connect/"+way.name] += connect(b, client.Netns, at(way.to, 7))
			sums["Gbit-s/"+way.name] += throughput(b, client.Netns, at(way.to, 9))
		}
	}
	for name, sum := range sums {
		b.ReportMetric(sum/n, name)
	}
	b.ReportMetric(0, "ns/op") // the whole round says nothing
}

// tracking is the least that a host with Services has: connections are tracked and may be translated, and the tunnel's
// own packets are not tracked. It shows how much of the rules' cost is the kernel's.
const tracking = `
add table inet %[1]s
delete table inet %[1]s
table inet %[1]s {
	chain raw-prerouting { type filter hook prerouting priority -300; udp dport 4789 notrack; }
	chain raw-output { type filter hook output priority -300; udp dport 4789 notrack; }
	chain forward { type filter hook forward priority 0; ct state established,related accept; }
	chain nat-prerouting { type nat hook prerouting priority -100; }
	chain nat-output { type nat hook output priority -100; }
	chain nat-postrouting { type nat hook postrouting priority 100; }
}
`

// BenchmarkOverlay compares, turn by turn in one run, a pod that talks to one of another host through the tunnel's
// device alone, with its connections tracked, and through our rules.
func BenchmarkOverlay(b *testing.B) {
	w, _ := newOverlay(b)
	client, server := w.pods[0], w.pods[2]
	serveEcho(b, server.Netns, at(server.Address, 7))
	serveSink(b, server.Netns, at(server.Address, 9))
	turns := []struct {
		name string
		make func(*labHost)
	}{
		{"bare", func(h *labHost) { dropTable(b, h) }},
		{"tracked", func(h *labHost) { loadTable(b, h, fmt.Sprintf(tracking, compile.TableName)) }},
		{"rules", func(h *labHost) { dropTable(b, h); h.apply() }},
	}
	sums, n := map[string]float64{}, 0.0
	for b.Loop() {
		n++
		// What is measured later is slower on a machine that becomes warm.
		rand.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
		for _, turn := range turns {
			turn.make(w.a)
			turn.make(w.b)
			sums["us-round-trip/"+turn.name] += roundTrip(b, client.Netns, at(server.Address, 7))
			sums["Gbit-s/"+turn.name] += throughput(b, client.Netns, at(server.Address, 9))
		}
	}
	for name, sum := range sums {
		b.ReportMetric(sum/n, name)
	}
	b.ReportMetric(0, "ns/op") // the whole round says nothing
}

// dropTable removes the host's rules. A new data plane takes the place of the old one, which would be right to warn
// of that.
func dropTable(b *testing.B, h *labHost) {
	b.Helper()
	loadTable(b, h, "add table inet "+compile.TableName+"\ndelete table inet "+compile.TableName)
	h.Plane.Close()
	var err error
	h.Plane, err = apply.New(apply.Config{NetnsDir: filepath.Dir(h.Plane.NamespacePath("x")), Netns: h.Netns})
	if err != nil {
		b.Fatal(err)
	}
}

// loadTable runs commands of nft in the host's namespace.
func loadTable(b *testing.B, h *labHost, commands string) {
	b.Helper()
	s, err := kernel.Open(h.Netns)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if err := s.Nft(b.Context(), commands); err != nil {
		b.Fatal(err)
	}
}

// serveEcho sends back every byte.
func serveEcho(b testing.TB, netns string, to netip.AddrPort) {
	serve(b, netns, to, func(c net.Conn) { _, _ = io.Copy(c, c) })
}

// serveSink reads and forgets.
func serveSink(b testing.TB, netns string, to netip.AddrPort) {
	serve(b, netns, to, func(c net.Conn) {
		buf := make([]byte, 1<<20)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	})
}

func serve(b testing.TB, netns string, to netip.AddrPort, each func(net.Conn)) {
	b.Helper()
	err := in(b, netns, func() error {
		l, err := net.Listen("tcp4", to.String())
		if err != nil {
			return err
		}
		b.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer func() { _ = c.Close() }() // read to the end
					each(c)
				}()
			}
		}()
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

func dial(b testing.TB, netns string, to netip.AddrPort) net.Conn {
	b.Helper()
	var c net.Conn
	err := in(b, netns, func() (err error) {
		c, err = net.DialTimeout("tcp4", to.String(), patience)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// roundTrip returns the mean time of one byte there and back, in microseconds.
func roundTrip(b *testing.B, netns string, to netip.AddrPort) float64 {
	c := dial(b, netns, to)
	defer func() { _ = c.Close() }() // read to the end
	buf := make([]byte, 1)
	n, start := 0, time.Now()
	for time.Since(start) < window {
		if _, err := c.Write(buf); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Read(buf); err != nil {
			b.Fatal(err)
		}
		n++
	}
	return float64(time.Since(start).Microseconds()) / float64(n)
}

// connect returns the mean time of a new connection, in microseconds.
func connect(b *testing.B, netns string, to netip.AddrPort) float64 {
	var mean float64
	err := in(b, netns, func() error {
		n, start := 0, time.Now()
		for time.Since(start) < window {
			c, err := net.DialTimeout("tcp4", to.String(), patience)
			if err != nil {
				return fmt.Errorf("connection %d: %w", n, err)
			}
			_ = c.(*net.TCPConn).SetLinger(0) // leave no TIME_WAIT behind
			if err := c.Close(); err != nil {
				return err
			}
			n++
		}
		mean = float64(time.Since(start).Microseconds()) / float64(n)
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return mean
}

// throughput of one connection, in Gbit/s.
func throughput(b *testing.B, netns string, to netip.AddrPort) float64 {
	c := dial(b, netns, to)
	defer func() { _ = c.Close() }() // what is lost was not counted
	buf := make([]byte, 1<<20)
	total, start := 0, time.Now()
	for time.Since(start) < window {
		n, err := c.Write(buf)
		if err != nil {
			b.Fatal(err)
		}
		total += n
	}
	return float64(total) * 8 / 1e9 / time.Since(start).Seconds()
}
