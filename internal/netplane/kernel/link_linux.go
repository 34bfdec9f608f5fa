// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// routeProtocol marks the routes that this program makes, so that it finds them
// again. rtnetlink(7) leaves the numbers above 4 to administrators; 109 ('m')
// is not among the names of iproute2's rt_protos.
const routeProtocol netlink.RouteProtocol = 109

// FindLink returns the named link, or nil if it does not exist.
func (s *Space) FindLink(name string) (netlink.Link, error) {
	l, err := s.Netlink.LinkByName(name)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find link %s: %w", name, err)
	}
	return l, nil
}

// DeleteLink deletes the named link; it is not an error if it does not exist.
func (s *Space) DeleteLink(name string) error {
	l, err := s.FindLink(name)
	if err != nil || l == nil {
		return err
	}
	if err := s.Netlink.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("delete link %s: %w", name, err)
	}
	return nil
}

// carrierLimit is how long AwaitUp waits. The kernel's worker takes milliseconds, and more than a second on a machine
// where many network namespaces come and go, because it needs the same lock (rtnl).
const carrierLimit = 30 * time.Second

// AwaitUp waits until links that were set up carry packets. A worker of the kernel attaches the queue of a link that
// has got its carrier, and opens its port of a bridge (Linux, net/core/link_watch.c, linkwatch_do_dev, and
// net/bridge/br_if.c, br_port_carrier_check). Until then packets are dropped, not kept.
func (s *Space) AwaitUp(ctx context.Context, names ...string) error {
	ctx, cancel := context.WithTimeout(ctx, carrierLimit)
	defer cancel()
	for len(names) > 0 {
		l, err := s.Netlink.LinkByName(names[0])
		switch {
		case err != nil:
			return fmt.Errorf("find link %s: %w", names[0], err)
		case l.Attrs().OperState == netlink.OperUp:
			names = names[1:]
		case ctx.Err() != nil:
			return fmt.Errorf("wait for link %s: it is %s: %w", names[0], l.Attrs().OperState, ctx.Err())
		default:
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// AddAddresses gives the link the addresses that it lacks, without the routes
// that the kernel would make for their prefixes if bare.
func (s *Space) AddAddresses(l netlink.Link, want []netip.Prefix, bare bool) error {
	have, err := s.addresses(l)
	if err != nil {
		return err
	}
	for _, p := range want {
		if slices.Contains(have, p) {
			continue
		}
		a := &netlink.Addr{IPNet: ipNet(p)}
		if bare {
			a.Flags = unix.IFA_F_NOPREFIXROUTE
		}
		if p.Addr().Is6() {
			a.Flags |= unix.IFA_F_NODAD // addresses are given out once, and each link has one user
		}
		if err := s.Netlink.AddrAdd(l, a); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add address %s to %s: %w", p, l.Attrs().Name, err)
		}
	}
	return nil
}

// KeepAddresses removes every address of the link that is not listed, except link-local ones of IPv6, which the kernel
// makes.
func (s *Space) KeepAddresses(l netlink.Link, want []netip.Prefix) error {
	have, err := s.addresses(l)
	if err != nil {
		return err
	}
	for _, p := range have {
		if slices.Contains(want, p) {
			continue
		}
		if err := s.Netlink.AddrDel(l, &netlink.Addr{IPNet: ipNet(p)}); err != nil &&
			!errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("remove address %s from %s: %w", p, l.Attrs().Name, err)
		}
	}
	return nil
}

func (s *Space) addresses(l netlink.Link) ([]netip.Prefix, error) {
	list, err := List(func() ([]netlink.Addr, error) { return s.Netlink.AddrList(l, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses of %s: %w", l.Attrs().Name, err)
	}
	var have []netip.Prefix
	for _, a := range list {
		if p := Prefix(a.IPNet); !p.Addr().Is6() || !p.Addr().IsLinkLocalUnicast() {
			have = append(have, p)
		}
	}
	return have, nil
}

// defaultMetric6 is the metric that the kernel gives to an IPv6 route without one
// (Linux, include/uapi/linux/ipv6_route.h, IP6_RT_PRIO_USER).
const defaultMetric6 = 1024

// Route is one route of a namespace's main table. In IPv6, metric 0 stands for
// the kernel's own.
type Route struct {
	Destination netip.Prefix
	LinkIndex   int // 0: unreachable
	NextHop     netip.Addr
	OnLink      bool
	Source      netip.Addr
	Metric      int
}

// ReplaceRoute adds the route or puts it in place of another with the same
// destination and metric.
func (s *Space) ReplaceRoute(r Route) error {
	n := &netlink.Route{
		Dst: ipNet(r.Destination), LinkIndex: r.LinkIndex, Protocol: routeProtocol,
		Gw: ip(r.NextHop), Src: ip(r.Source), Scope: netlink.SCOPE_UNIVERSE, Priority: r.Metric,
	}
	switch {
	case r.LinkIndex == 0:
		n.Type = unix.RTN_UNREACHABLE
	case !r.NextHop.IsValid():
		n.Scope = netlink.SCOPE_LINK
	case r.OnLink:
		n.Flags = int(netlink.FLAG_ONLINK)
	}
	if r.Destination.Addr().Is6() && r.Metric == 0 {
		n.Priority = defaultMetric6
	}
	if err := s.Netlink.RouteReplace(n); err != nil {
		return fmt.Errorf("set route to %s: %w", r.Destination, err)
	}
	return nil
}

// DeleteRoute removes this project's route with the destination and the metric. It
// is not an error if the route does not exist.
func (s *Space) DeleteRoute(destination netip.Prefix, metric int) error {
	list, err := s.routes()
	if err != nil {
		return err
	}
	for _, r := range list {
		if destinationOf(&r) == destination && metricOf(&r) == metric {
			if err := s.Netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("delete route to %s: %w", destination, err)
			}
		}
	}
	return nil
}

// KeepRoutes removes every route of this project for which wanted returns false.
// The function gets destination, link, next hop and metric.
func (s *Space) KeepRoutes(wanted func(Route) bool) error {
	list, err := s.routes()
	if err != nil {
		return err
	}
	for _, r := range list {
		hop, _ := netip.AddrFromSlice(r.Gw)
		have := Route{
			Destination: destinationOf(&r), LinkIndex: r.LinkIndex, NextHop: hop.Unmap(), Metric: metricOf(&r),
		}
		if !wanted(have) {
			if err := s.Netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("delete route to %s: %w", r.Dst, err)
			}
		}
	}
	return nil
}

// ForeignRoute returns the destination of a route that overlaps a range and is not this project's, or the zero value.
// Default routes do not count.
func (s *Space) ForeignRoute(p netip.Prefix) (netip.Prefix, error) {
	family := netlink.FAMILY_V4
	if p.Addr().Is6() {
		family = netlink.FAMILY_V6
	}
	list, err := List(func() ([]netlink.Route, error) { return s.Netlink.RouteList(nil, family) })
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("list routes: %w", err)
	}
	for _, r := range list {
		if d := destinationOf(&r); r.Protocol != routeProtocol && d.Bits() > 0 && d.Overlaps(p) {
			return d, nil
		}
	}
	return netip.Prefix{}, nil
}

// destinationOf returns the destination of a route.
func destinationOf(r *netlink.Route) netip.Prefix {
	if r.Dst == nil && r.Family == netlink.FAMILY_V6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return Prefix(r.Dst)
}

// metricOf returns the metric as ReplaceRoute takes it.
func metricOf(r *netlink.Route) int {
	if r.Family == netlink.FAMILY_V6 && r.Priority == defaultMetric6 {
		return 0
	}
	return r.Priority
}

// SetNeighbour makes a permanent neighbour of a link.
func (s *Space) SetNeighbour(link netlink.Link, a netip.Addr, mac net.HardwareAddr) error {
	n := &netlink.Neigh{
		LinkIndex: link.Attrs().Index, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT,
		IP: a.AsSlice(), HardwareAddr: mac,
	}
	if a.Is6() {
		n.Family = netlink.FAMILY_V6
	}
	if err := s.Netlink.NeighSet(n); err != nil {
		return fmt.Errorf("set neighbour %s of %s: %w", a, link.Attrs().Name, err)
	}
	return nil
}

// DeleteNeighbour removes the entry of an address. It is not an error if the entry does
// not exist.
func (s *Space) DeleteNeighbour(link netlink.Link, a netip.Addr) error {
	err := s.Netlink.NeighDel(&netlink.Neigh{LinkIndex: link.Attrs().Index, IP: a.AsSlice()})
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("delete neighbour %s of %s: %w", a, link.Attrs().Name, err)
	}
	return nil
}

// routes lists the routes that carry our protocol number.
func (s *Space) routes() ([]netlink.Route, error) {
	list, err := List(func() ([]netlink.Route, error) {
		return s.Netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: routeProtocol},
			netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	return list, nil
}

// ipNet converts a prefix, keeping the host part of the address.
func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// Prefix is the inverse of ipNet; nil means the IPv4 default route.
func Prefix(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	a, _ := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), ones)
}

func ip(a netip.Addr) net.IP {
	if !a.IsValid() {
		return nil
	}
	return a.AsSlice()
}
