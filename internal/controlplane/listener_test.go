// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// freePort finds a port that is free on two loopback addresses.
func freePort(t *testing.T) uint16 {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := uint16(l.Addr().(*net.TCPAddr).Port)
		m, err := net.Listen("tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), port).String())
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			continue
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatal("no free port")
	return 0
}

func TestFanIn(t *testing.T) {
	addrs := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")}
	port := freePort(t)
	l, err := listen(t.Context(), addrs, port)
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Addr().String(); got != netip.AddrPortFrom(addrs[0], port).String() {
		t.Errorf("Addr = %s", got)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, c.LocalAddr().String()) // the client's read tells
			_ = c.Close()
		}
	}()
	for _, a := range addrs {
		at := netip.AddrPortFrom(a, port).String()
		c, err := net.DialTimeout("tcp", at, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if string(got) != at || err != nil {
			t.Errorf("%s: %q, %v", at, got, err)
		}
		_ = c.Close()
	}
	// 127.0.0.3 is not among the addresses.
	if c, err := net.DialTimeout("tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.3"), port).String(),
		5*time.Second); err == nil {
		_ = c.Close()
		t.Error("it listens on more than it was told")
	}
	if _, err := listen(context.Background(), addrs, port); err == nil ||
		!strings.Contains(err.Error(), "another program uses this port") {
		t.Errorf("port in use: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: %v", err)
	}
}

func TestListenOnForeignAddress(t *testing.T) {
	// 192.0.2.0/24 is for documentation and on no machine.
	_, err := listen(t.Context(), []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1")},
		freePort(t))
	if err == nil || !strings.Contains(err.Error(), "no interface of this machine has the address") {
		t.Errorf("err = %v", err)
	}
}
