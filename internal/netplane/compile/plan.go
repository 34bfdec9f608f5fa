// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// Plan is the desired state of the host's network namespace.
type Plan struct {
	// Sysctls of the namespace, besides the sysctls of its links.
	Sysctls []Sysctl
	Links   []Link
	Routes  []Route
	// Proxies are addresses that the uplink answers for, sorted.
	Proxies []netip.Addr
	Table   Table

	// uplink is the uplink for which the fragments were made.
	uplink intent.Uplink
}

// Sysctl is one file under /proc/sys with its content.
type Sysctl struct{ Path, Value string }

// LinkKind is the kind of a device.
type LinkKind string

// The kinds of links.
const (
	Veth   LinkKind = "veth"
	Bridge LinkKind = "bridge" // without ports: a place for addresses that is in every kernel
	VXLAN  LinkKind = "vxlan"
)

// LinkPrefix begins the name of every link that the plan makes on the host's
// side, so that one rule covers all of them and a new process finds the links of
// the old one.
const LinkPrefix = "hns"

// TunnelPrefix begins the names of VXLAN devices, for the same reason. It differs from
// LinkPrefix, whose rules are about endpoints.
const TunnelPrefix = "vxlan"

// Link is one device of the host's namespace.
type Link struct {
	Name string
	Kind LinkKind
	MTU  int
	MAC  string // empty: the kernel's choice
	// Alias is shown by `ip link` and names the link's owner.
	Alias string
	// Addresses are set without a route to their prefix.
	Addresses []netip.Prefix
	Sysctls   []Sysctl
	Peer      *Peer // of a veth
	// Neighbours are permanent entries on the link, of ARP or of IPv6.
	Neighbours []Neighbour
	Tunnel     *Tunnel   // of a VXLAN device
	Forwards   []Forward // of a VXLAN device, which does not learn
}

// Tunnel holds the settings of a VXLAN device, which never change.
type Tunnel struct {
	ID    uint32
	Local netip.Addr // the outer source
	Port  uint16
}

// Forward makes a VXLAN device send frames for a MAC address to a host.
type Forward struct {
	MAC string
	To  netip.Addr
}

// Peer is the end of a veth pair inside an HCN namespace.
type Peer struct {
	NamespaceID string
	Name        string // "eth0"
	MAC         string
	Addresses   []netip.Prefix
	Routes      []Route
	// HostIs are IPv6 addresses that are the other end of the pair for the namespace:
	// permanent neighbours.
	HostIs []netip.Addr
	// Accepts are addresses that the namespace takes as its own, without having them.
	Accepts []netip.Addr
	Bucket  *Bucket // nil: it sends as fast as it can
	// Redirects is a table of nftables, named RedirectTable, for the namespace; or empty.
	Redirects string
}

// Neighbour is one permanent entry.
type Neighbour struct {
	Address netip.Addr
	MAC     string
}

// Route is one route of the main table.
type Route struct {
	Destination netip.Prefix
	// Link is the device; empty for an unreachable route.
	Link    string
	NextHop netip.Addr // absent: on the link
	// OnLink: the next hop is on the link although no address's prefix covers it.
	OnLink bool
	Source netip.Addr // preferred source, may be absent
	Metric int        // the lowest wins
}

// HasIPv6 reports whether the plan is for a host with two families.
func (p *Plan) HasIPv6() bool { return len(families(p.uplink)) > 1 }

// Diff returns the operations on the table that lead from old to p.
func (p *Plan) Diff(old *Plan) []Op { return diffTables(&old.Table, &p.Table) }

// String returns the whole plan as text, for goldens and for people. The table is
// written as `nft list table` writes it.
func (p *Plan) String() string {
	var b strings.Builder
	for _, s := range p.Sysctls {
		fmt.Fprintf(&b, "sysctl %s = %s\n", s.Path, s.Value)
	}
	for _, l := range p.Links {
		fmt.Fprintf(&b, "link %s %s mtu %d mac %s (%s)\n", l.Name, l.Kind, l.MTU, orNone(l.MAC), l.Alias)
		for _, a := range l.Addresses {
			fmt.Fprintf(&b, "  address %s\n", a)
		}
		if l.Tunnel != nil {
			fmt.Fprintf(&b, "  id %d local %s port %d\n", l.Tunnel.ID, l.Tunnel.Local, l.Tunnel.Port)
		}
		for _, n := range l.Neighbours {
			fmt.Fprintf(&b, "  neighbour %s is %s\n", n.Address, n.MAC)
		}
		for _, f := range l.Forwards {
			fmt.Fprintf(&b, "  forward %s to %s\n", f.MAC, f.To)
		}
		for _, s := range l.Sysctls {
			fmt.Fprintf(&b, "  sysctl %s = %s\n", s.Path, s.Value)
		}
		if l.Peer != nil {
			fmt.Fprintf(&b, "  peer %s in %s mac %s\n", l.Peer.Name, l.Peer.NamespaceID, l.Peer.MAC)
			for _, a := range l.Peer.Addresses {
				fmt.Fprintf(&b, "    address %s\n", a)
			}
			for _, a := range l.Peer.HostIs {
				fmt.Fprintf(&b, "    neighbour %s is the host\n", a)
			}
			for _, a := range l.Peer.Accepts {
				fmt.Fprintf(&b, "    accepts %s\n", a)
			}
			for _, r := range l.Peer.Routes {
				fmt.Fprintf(&b, "    %s\n", r)
			}
			if k := l.Peer.Bucket; k != nil {
				fmt.Fprintf(&b, "    rate %d burst %d queue %d\n", k.Rate, k.Burst, k.Queue)
			}
			for line := range strings.Lines(l.Peer.Redirects) {
				b.WriteString("    " + line)
			}
		}
	}
	for _, r := range p.Routes {
		fmt.Fprintln(&b, r)
	}
	for _, a := range p.Proxies {
		fmt.Fprintf(&b, "proxy %s\n", a)
	}
	p.Table.write(&b)
	return b.String()
}

// String returns text close to the output of `ip route`.
func (r Route) String() string {
	s := "route " + r.Destination.String()
	if r.Link == "" {
		return s + " unreachable"
	}
	if r.NextHop.IsValid() {
		s += " via " + r.NextHop.String()
	}
	s += " dev " + r.Link
	if r.Source.IsValid() {
		s += " src " + r.Source.String()
	}
	if r.Metric != 0 {
		s += fmt.Sprint(" metric ", r.Metric)
	}
	if r.OnLink {
		s += " onlink"
	}
	return s
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
