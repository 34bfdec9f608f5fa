// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// routing is the computer's routing table and the settings of its IPv4 interfaces.
// Errors are Windows' own.
type routing interface {
	Routes() ([]Route, error)
	// Routes6 is the table of IPv6.
	Routes6() ([]Route, error)
	AddRoute(r Route) error
	DeleteRoute(r Route) error
	Interfaces() ([]Interface, error)
	// SetInterface sets the forwarding, weak host and metric settings.
	SetInterface(i Interface) error
	// The persistent routes of the registry, by the names of their values.
	PersistentRoutes() ([]string, error)
	KeepRoute(name string) error
	ForgetRoute(name string) error
}

// Route is an entry of the routing table.
type Route struct {
	Index       int
	Destination netip.Prefix
	NextHop     netip.Addr // unspecified: on the link
	Metric      int        // without the interface's
	Local       bool       // the system made it
}

// Interface is an IPv4 interface.
type Interface struct {
	Index, MTU, Metric int
	AutomaticMetric    bool
	Forwarding         bool
	WeakHostSend       bool
	WeakHostReceive    bool
	Name, Description  string
	MAC                string
	Loopback           bool
	Addresses          []netip.Prefix
}

func (i Interface) covers(a netip.Addr) bool {
	return slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Masked().Contains(a) })
}

// own returns the first address of the interface.
func (i Interface) own() netip.Addr {
	for _, p := range i.Addresses {
		if p.Addr().Is4() {
			return p.Addr()
		}
	}
	return netip.IPv4Unspecified()
}

func maskOf(p netip.Prefix) string { return net.IP(net.CIDRMask(p.Bits(), 32)).String() }

// prefixOf joins an address and a mask.
func prefixOf(address, mask netip.Addr) (netip.Prefix, bool) {
	if !address.Is4() || !mask.Is4() {
		return netip.Prefix{}, false
	}
	ones, bits := net.IPMask(mask.AsSlice()).Size()
	return netip.PrefixFrom(address, ones), bits == 32
}

// persistentName is the name of a persistent route's value in the registry.
func persistentName(r Route) string {
	return fmt.Sprintf("%s,%s,%s,%d", r.Destination.Addr(), maskOf(r.Destination), r.NextHop, r.Metric)
}

func parsePersistent(name string) (Route, bool) {
	parts := strings.Split(name, ",")
	if len(parts) != 4 {
		return Route{}, false
	}
	address, err1 := netip.ParseAddr(parts[0])
	mask, err2 := netip.ParseAddr(parts[1])
	hop, err3 := netip.ParseAddr(parts[2])
	metric, err4 := strconv.Atoi(parts[3])
	p, ok := prefixOf(address, mask)
	return Route{Destination: p, NextHop: hop, Metric: metric}, ok && err1 == nil && err2 == nil && err3 == nil &&
		err4 == nil
}

// forget removes the persistent routes to a destination, by the next hop if it is
// valid, and returns how many there were.
func forget(s routing, destination netip.Prefix, hop netip.Addr) (int, error) {
	names, err := s.PersistentRoutes()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, name := range names {
		r, ok := parsePersistent(name)
		if ok && r.Destination == destination && (!hop.IsValid() || r.NextHop == hop) {
			if err := s.ForgetRoute(name); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}
