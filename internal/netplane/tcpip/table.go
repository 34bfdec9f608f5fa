// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package tcpip

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// tableRow is one entry of the routing table as programs see it: MIB_IPFORWARD_ROW2.
type tableRow struct {
	Interface   int
	Destination netip.Prefix
	NextHop     netip.Addr // unspecified: on the link
	Metric      uint32     // without the adapter's
	// The following fields are set in answers only.
	Protocol        protocol
	Loopback        bool       // the destination is an address of the host
	Own             netip.Addr // the adapter's first address
	InterfaceMetric uint32
}

func (r tableRow) same(o tableRow) bool {
	return r.Interface == o.Interface && r.Destination == o.Destination && r.NextHop == o.NextHop
}

// protocol is the origin of a route: MIB_IPPROTO_ of ipmib.h.
type protocol uint32

const (
	protocolLocal   protocol = 2 // the stack itself
	protocolNetMgmt protocol = 3 // a program
)

// adapterRow is an adapter of the host with its settings.
type adapterRow struct {
	Index    int
	MTU      int
	Loopback bool
	settings
	metric uint32 // in use
}

// adapterChange has the changes for setAdapter; nil and 0 leave a setting as it is.
type adapterChange struct {
	Forwarding            *bool
	WeakHostSend          *bool
	WeakHostReceive       *bool
	Advertising           *bool
	AdvertiseDefaultRoute *bool
	AutomaticMetric       *bool
	Metric                uint32
	MTU                   int
}

func (c adapterChange) of(s settings) settings {
	for _, field := range []struct{ from, to *bool }{
		{c.Forwarding, &s.Forwarding}, {c.WeakHostSend, &s.WeakHostSend}, {c.WeakHostReceive, &s.WeakHostReceive},
		{c.Advertising, &s.Advertising}, {c.AdvertiseDefaultRoute, &s.AdvertiseDefaultRoute},
	} {
		if field.from != nil {
			*field.to = *field.from
		}
	}
	if c.Metric != 0 {
		s.Metric = c.Metric
	}
	if c.AutomaticMetric != nil && *c.AutomaticMetric {
		s.Metric = 0
	}
	return s
}

// adapter is an adapter as it is, with its settings.
type adapter struct {
	intent.Adapter
	settings
}

// The automatic metrics of an Ethernet adapter of 10 Gbit/s and of loopback:
// https://learn.microsoft.com/troubleshoot/windows-server/networking/automatic-metric-for-ipv4-routes, read 2026-11.
const (
	ethernetMetric = 15
	loopbackMetric = 75
)

func (a adapter) metric() uint32 {
	if a.Loopback {
		return cmp.Or(a.Metric, loopbackMetric)
	}
	return cmp.Or(a.Metric, ethernetMetric)
}

// covers reports whether the address lies in a subnet of the adapter.
func (a adapter) covers(hop netip.Addr) bool {
	return slices.ContainsFunc(a.Addresses, func(p netip.Prefix) bool { return p.Masked().Contains(hop) })
}

// find converts a program's request into a route. A next hop that is the adapter's
// own address means "on the link", as it does for route.exe.
func find(list []adapter, row tableRow) (route, adapter, error) {
	i := slices.IndexFunc(list, func(a adapter) bool { return a.Index == row.Interface })
	if i < 0 {
		return route{}, adapter{}, refuse(notFound, "no adapter %d", row.Interface)
	}
	r := route{Link: list[i].Link, Destination: row.Destination, NextHop: row.NextHop, Metric: row.Metric}
	if slices.ContainsFunc(list[i].Addresses, func(p netip.Prefix) bool { return p.Addr() == row.NextHop }) {
		r.NextHop = netip.IPv4Unspecified()
	}
	return r, list[i], nil
}

// checkRoute refuses routes that Windows refuses, and routes that would divert
// packets for the host itself.
func checkRoute(r route) error {
	d, hop := r.Destination, r.NextHop
	switch {
	case !d.IsValid() || !d.Addr().Is4():
		return refuse(invalidParameter, "destination %s is not an IPv4 prefix", d)
	case d != d.Masked():
		return refuse(invalidParameter, "destination %s has bits beyond its length", d)
	case d.Addr().IsLoopback():
		return refuse(invalidParameter, "destination %s is loopback", d)
	case !hop.Is4():
		return refuse(invalidParameter, "next hop %s is not an IPv4 address", hop)
	case hop.IsLoopback() || hop.IsMulticast() || hop == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return refuse(invalidParameter, "next hop %s is not the address of a host", hop)
	case r.Link == "lo":
		return refuse(invalidParameter, "routes by the loopback adapter lead nowhere")
	case r.Metric > maxMetric:
		return refuse(invalidParameter, "metric %d, the limit is %d", r.Metric, maxMetric)
	}
	return nil
}

// maxMetric is the largest metric of route.exe and of New-NetRoute's parameter.
const maxMetric = 9999 + 1<<16

// hostRoutes is the data plane's part of the table.
func hostRoutes(d document, list []adapter) []intent.HostRoute {
	var routes []intent.HostRoute
	for _, r := range d.Routes {
		h := intent.HostRoute{Destination: r.Destination, Link: r.Link, Metric: int(r.Metric) + ethernetMetric}
		if i := slices.IndexFunc(list, func(a adapter) bool { return a.Link == r.Link }); i >= 0 {
			h.Metric = int(r.Metric + list[i].metric())
		}
		if !r.NextHop.IsUnspecified() {
			h.NextHop = r.NextHop
		}
		routes = append(routes, h)
	}
	return routes
}

// table lists the entries that Windows makes for each adapter and address, the
// default route, and the routes that programs added.
func table(d document, list []adapter, gateway netip.Addr, uplink string) []tableRow {
	var rows []tableRow
	for _, a := range list {
		add := func(destination netip.Prefix, hop netip.Addr, metric uint32, p protocol, loopback bool) {
			row := tableRow{
				Interface: a.Index, Destination: destination, NextHop: hop, Metric: metric, Protocol: p,
				Loopback: loopback, InterfaceMetric: a.metric(),
			}
			if len(a.Addresses) > 0 {
				row.Own = a.Addresses[0].Addr()
			}
			if !slices.ContainsFunc(rows, row.same) {
				rows = append(rows, row)
			}
		}
		own := func(p netip.Prefix, loopback bool) {
			add(p, netip.IPv4Unspecified(), localMetric, protocolLocal, loopback)
		}
		if a.Link == uplink && gateway.IsValid() {
			add(everything(), gateway, 0, protocolNetMgmt, false)
		}
		for _, p := range a.Addresses {
			own(netip.PrefixFrom(p.Addr(), 32), true)
			if p.Bits() < 32 {
				own(p.Masked(), false)
			}
			if p.Bits() < 31 {
				own(netip.PrefixFrom(broadcast(p), 32), true)
			}
		}
		own(netip.MustParsePrefix("224.0.0.0/4"), false)
		own(netip.MustParsePrefix("255.255.255.255/32"), false)
		for _, r := range d.Routes {
			if r.Link == a.Link {
				add(r.Destination, r.NextHop, r.Metric, protocolNetMgmt, false)
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b tableRow) int {
		return cmp.Or(a.Destination.Addr().Compare(b.Destination.Addr()),
			cmp.Compare(a.Destination.Bits(), b.Destination.Bits()), cmp.Compare(a.Interface, b.Interface),
			cmp.Compare(a.Metric, b.Metric))
	})
	return rows
}

// localMetric is the metric of the stack's own entries.
const localMetric = 256

func everything() netip.Prefix { return netip.PrefixFrom(netip.IPv4Unspecified(), 0) }

func broadcast(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}
