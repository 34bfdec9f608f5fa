// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// patience is how long a program of the lab waits for an answer. In the lab
// everything takes some milliseconds at most; a loaded machine may need longer.
const patience = 5 * time.Second

// refusal is how long a test waits to be sure that no answer comes. A packet
// that is dropped is dropped at once; a longer wait proves no more.
const refusal = 300 * time.Millisecond

// in runs fn on a thread inside the namespace.
func in(t testing.TB, netns string, fn func() error) error {
	t.Helper()
	s, err := kernel.Open(netns)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Do(fn)
}

// Serve answers "name client-address" to every connection and datagram, until
// the test ends or the returned function is called.
func Serve(t testing.TB, netns, name, network string, at netip.AddrPort) (stop func()) {
	t.Helper()
	var closer interface{ Close() error }
	err := in(t, netns, func() error {
		if strings.HasPrefix(network, "udp") {
			c, err := net.ListenPacket(network, at.String())
			if err != nil {
				return err
			}
			closer = c
			go func() {
				buf := make([]byte, 1024)
				for {
					_, from, err := c.ReadFrom(buf)
					if err != nil {
						return
					}
					if _, err := c.WriteTo([]byte(name+" "+host(from)), from); err != nil {
						return
					}
				}
			}()
			return nil
		}
		l, err := net.Listen(network, at.String())
		if err != nil {
			return err
		}
		closer = l
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = fmt.Fprintf(c, "%s %s\n", name, host(c.RemoteAddr())) // the client sees it if this fails
				_ = c.Close()
			}
		}()
		return nil
	})
	if err != nil {
		t.Fatalf("listen on %s in %s: %v", at, netns, err)
	}
	stop = func() { _ = closer.Close() } // twice is harmless
	t.Cleanup(stop)
	return stop
}

func host(a net.Addr) string {
	h, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return h
}

// ask connects or sends from the namespace and returns the name of the server that
// answered, and under which address that server saw the client.
func ask(t testing.TB, netns, network string, to netip.AddrPort) (name, client string, err error) {
	t.Helper()
	return askFrom(t, netns, network, netip.AddrPort{}, to, patience)
}

// askFrom is ask from a given local address, with a time limit.
func askFrom(t testing.TB, netns, network string, from, to netip.AddrPort,
	limit time.Duration) (name, client string, err error) {
	t.Helper()
	var answer string
	err = in(t, netns, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		d := net.Dialer{}
		if from.IsValid() {
			if strings.HasPrefix(network, "udp") {
				d.LocalAddr = net.UDPAddrFromAddrPort(from)
			} else {
				d.LocalAddr = net.TCPAddrFromAddrPort(from)
			}
		}
		c, err := d.DialContext(ctx, network, to.String())
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }() // all data is written
		deadline, _ := ctx.Deadline()
		if err := c.SetDeadline(deadline); err != nil {
			return err
		}
		if strings.HasPrefix(network, "udp") {
			if _, err := c.Write([]byte("?")); err != nil {
				return err
			}
			buf := make([]byte, 1024)
			n, err := c.Read(buf)
			answer = string(buf[:n])
			return err
		}
		answer, err = bufio.NewReader(c).ReadString('\n')
		return err
	})
	name, client, _ = strings.Cut(strings.TrimSpace(answer), " ")
	return name, client, err
}

// Expect fails the test unless the named server answers.
func Expect(t testing.TB, netns, network string, to netip.AddrPort, name string) (client string) {
	t.Helper()
	got, client, err := ask(t, netns, network, to)
	if err != nil {
		t.Fatalf("ask %s %s: %v", network, to, err)
	}
	if got != name {
		t.Fatalf("ask %s %s: %s answered, want %s", network, to, got, name)
	}
	return client
}

// ExpectNothing fails the test if there is an answer.
func ExpectNothing(t testing.TB, netns, network string, to netip.AddrPort) {
	t.Helper()
	if got, _, err := askFrom(t, netns, network, netip.AddrPort{}, to, refusal); err == nil {
		t.Fatalf("ask %s %s: %s answered, want no answer", network, to, got)
	}
}

// Answer returns the name of the server that answers, or "" without an answer. It waits long for an answer that is
// expected, so that a loaded machine makes no difference, and briefly for another.
func Answer(t testing.TB, netns, network string, to netip.AddrPort, expected bool) (name string) {
	limit := refusal
	if expected {
		limit = patience
	}
	name, _, err := askFrom(t, netns, network, netip.AddrPort{}, to, limit)
	if err != nil {
		return ""
	}
	return name
}
