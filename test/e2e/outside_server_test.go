// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
)

// outsider is a server outside of the cluster: a namespace behind the cluster's router, in a
// network that is reserved for documentation (RFC 5737).
const (
	outsider       = "198.51.100.2"
	outsiderRouter = "198.51.100.1"
)

// outside makes the server and returns its namespace. It ends with the test.
func (c netCluster) outside() string {
	c.t.Helper()
	netns := netlab.Namespace(c.t, filepath.Join(c.t.TempDir(), "outside"))
	there, err := kernel.Open(netns)
	if err != nil {
		c.t.Fatal(err)
	}
	defer there.Close()
	router, err := kernel.Open(filepath.Join(c.dir(), "run", "netns", "mullion-"+c.name))
	if err != nil {
		c.t.Fatal(err)
	}
	defer router.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "eth0"
	cable := netlink.NewVeth(attrs)
	cable.PeerName, cable.PeerNamespace = "outside", netlink.NsFd(router.Handle())
	if err := errors.Join(there.Netlink.LinkAdd(cable), addressed(there, "eth0", outsider),
		addressed(router, "outside", outsiderRouter),
		there.Netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(outsiderRouter)})); err != nil {
		c.t.Fatal(err)
	}
	c.serveOutside(there)
	return netns
}

// addressed gives a link its address in the outsider's network.
func addressed(s *kernel.Space, name, address string) error {
	link, err := s.Netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	a, err := netlink.ParseAddr(address + "/24")
	if err != nil {
		return err
	}
	return errors.Join(s.Netlink.AddrAdd(link, a), s.Netlink.LinkSetUp(link))
}

// serveOutside answers HTTP at port 80 and returns datagrams that come to port 5353.
func (c netCluster) serveOutside(there *kernel.Space) {
	c.t.Helper()
	var listener net.Listener
	var datagrams net.PacketConn
	err := there.Do(func() (err error) {
		if listener, err = net.Listen("tcp4", outsider+":80"); err != nil {
			return err
		}
		datagrams, err = net.ListenPacket("udp4", outsider+":5353")
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	server := http.Server{ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go func() { _ = server.Serve(listener) }() // until it is closed
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := datagrams.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = datagrams.WriteTo(buf[:n], from) // who sent it waits, or not
		}
	}()
	c.t.Cleanup(func() { _ = errors.Join(server.Close(), datagrams.Close()) })
}

// fetchFrom asks from a network namespace.
func fetchFrom(t *testing.T, netns, url string) error {
	t.Helper()
	return kernel.Do(netns, func() error {
		// The connection is made on this thread, which is in the namespace.
		dialer := net.Dialer{Timeout: 3 * time.Second}
		u, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		conn, err := dialer.DialContext(t.Context(), "tcp4", net.JoinHostPort(u.URL.Hostname(), port(u)))
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// port is that of a request by HTTP.
func port(r *http.Request) string {
	if p := r.URL.Port(); p != "" {
		return p
	}
	return "80"
}
