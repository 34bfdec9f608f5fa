// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/fault"
	"github.com/mullion-k8s/mullion/internal/fault/undo"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// Uplink is the name of a host's adapter inside its namespace.
const Uplink = "eth0"

// Attachment describes a host's connection to the fabric.
type Attachment struct {
	Node string
	// Netns is the host's network namespace, for example /proc/PID/ns/net.
	Netns string
	// Address is the node IP with the node net's prefix length.
	Address netip.Prefix
	// Address6 is the IPv6 address of the node, if the fabric has IPv6.
	Address6 netip.Prefix
	// MTU of the uplink; 0 means the kernel's default.
	MTU int
}

// Connect gives a host its uplink: eth0 with its address and default route, and
// a port on the bridge, both ready for packets. It adds the missing parts of an existing one.
// Preconditions: Apply has succeeded.
func (f *Fabric) Connect(ctx context.Context, a Attachment) (err error) {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("connect host %s: %w", a.Node, err)
	}
	if a.Address.Masked() != f.plan.NodeNet || !IsHost(f.plan.NodeNet, a.Address.Addr()) {
		return fmt.Errorf("connect host %s: address %s: not a host's address in %s", a.Node, a.Address, f.plan.NodeNet)
	}
	if err := f.plan.checkHost(a.Address6); err != nil {
		return fmt.Errorf("connect host %s: %w", a.Node, err)
	}
	inside, err := kernel.Open(f.plan.Namespace)
	if err != nil {
		return fmt.Errorf("connect host %s: %w", a.Node, err)
	}
	defer inside.Close()
	host, err := kernel.Open(a.Netns)
	if err != nil {
		return fmt.Errorf("connect host %s: %w", a.Node, err)
	}
	defer host.Close()
	var back undo.Stack
	defer back.OnError(ctx, &err)
	if err := f.connect(ctx, a, inside, host, &back); err != nil {
		return fmt.Errorf("connect host %s: %w", a.Node, err)
	}
	return nil
}

func (f *Fabric) connect(ctx context.Context, a Attachment, inside, host *kernel.Space, back *undo.Stack) error {
	name := portName(a.Node)
	eth0, err := host.FindLink(Uplink)
	if err != nil {
		return err
	}
	port, err := inside.FindLink(name)
	if err != nil {
		return err
	}
	if eth0 == nil || port == nil || eth0.Attrs().ParentIndex != port.Attrs().Index ||
		port.Attrs().ParentIndex != eth0.Attrs().Index {
		// The port of a host's earlier life, or the uplink of an earlier fabric.
		if err := errors.Join(inside.DeleteLink(name), host.DeleteLink(Uplink)); err != nil {
			return err
		}
		if err := addPair(host, Uplink, mac(a.Address.Addr()), inside, name, a.MTU); err != nil {
			return err
		}
		back.Add("delete uplink", func(context.Context) error { return inside.DeleteLink(name) })
		if eth0, err = host.FindLink(Uplink); err != nil {
			return err
		}
	}
	if err := fault.Point(ctx, "fabric.connect.after-pair"); err != nil {
		return err
	}
	if err := f.plug(inside, name); err != nil {
		return err
	}
	lo, err := host.FindLink("lo")
	if err != nil {
		return err
	}
	if err := host.Netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set up loopback: %w", err)
	}
	addresses := []netip.Prefix{a.Address}
	if a.Address6.IsValid() {
		addresses = append(addresses, a.Address6)
	}
	if err := f.connectIPv6(host, eth0, a.Address6); err != nil {
		return err
	}
	if err := host.AddAddresses(eth0, []netip.Prefix{a.Address}, false); err != nil {
		return err
	}
	if err := host.KeepAddresses(eth0, addresses); err != nil {
		return err
	}
	if err := host.Netlink.LinkSetUp(eth0); err != nil {
		return fmt.Errorf("set up %s: %w", Uplink, err)
	}
	if err := errors.Join(host.AwaitUp(ctx, Uplink), inside.AwaitUp(ctx, name)); err != nil {
		return err
	}
	if err := fault.Point(ctx, "fabric.connect.before-route"); err != nil {
		return err
	}
	if a.Address6.IsValid() {
		if err := host.ReplaceRoute(kernel.Route{
			Destination: netip.PrefixFrom(netip.IPv6Unspecified(), 0), LinkIndex: eth0.Attrs().Index,
			NextHop: f.plan.Router6.Addr(),
		}); err != nil {
			return err
		}
	}
	return host.ReplaceRoute(kernel.Route{
		Destination: netip.PrefixFrom(netip.IPv4Unspecified(), 0), LinkIndex: eth0.Attrs().Index,
		NextHop: f.plan.Router.Addr(),
	})
}

// Router changes the routes to hosts in a namespace, the fabric's or the machine's. An emulated
// host, which has no other access to them, uses it.
type Router struct{ namespace string }

// OpenRouter names the namespace by its file; "" is the process's own.
func OpenRouter(namespace string) *Router { return &Router{namespace} }

// SetPrefixes makes the host with the given address the owner of exactly these
// pod ranges. Ranges of the other family are left out: they belong to another
// address.
func (r *Router) SetPrefixes(ctx context.Context, via netip.Addr, prefixes []netip.Prefix) error {
	return r.set(ctx, via, prefixes, 0)
}

// SetShared makes the host with the given address one of the ways to exactly these ranges,
// which are other hosts' ways, too: the host with the lowest address is used.
func (r *Router) SetShared(ctx context.Context, via netip.Addr, prefixes []netip.Prefix) error {
	return r.set(ctx, via, prefixes, sharedMetric(via))
}

// SetServices makes the host with the given address one of the ways to exactly these ranges of Services, as SetShared
// does. A range with a route of another program is left out, and named in the error.
func (r *Router) SetServices(ctx context.Context, via netip.Addr, ranges []netip.Prefix) error {
	inside, err := kernel.Open(r.namespace)
	if err != nil {
		return fmt.Errorf("route to Services: %w", err)
	}
	defer inside.Close()
	var free []netip.Prefix
	var taken error
	for _, p := range ranges {
		if p.Addr().Is4() != via.Is4() {
			continue
		}
		other, err := inside.ForeignRoute(p)
		if err != nil {
			return fmt.Errorf("route to Services: %w", err)
		}
		if other.IsValid() {
			taken = errors.Join(taken, fmt.Errorf("route %s to Services: the machine has a route to %s", p, other))
			continue
		}
		free = append(free, p)
	}
	return errors.Join(taken, r.set(ctx, via, free, servicesMetric+sharedMetric(via)))
}

// set replaces the routes to a host that have the metric, or another one of its kind, by routes of the ranges of its
// family.
func (r *Router) set(ctx context.Context, via netip.Addr, prefixes []netip.Prefix, metric int) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("route to %s: %w", via, err)
	}
	inside, err := kernel.Open(r.namespace)
	if err != nil {
		return fmt.Errorf("route to %s: %w", via, err)
	}
	defer inside.Close()
	wanted := map[netip.Prefix]bool{}
	for _, p := range prefixes {
		if !p.IsValid() || p.Addr().Is4() != via.Is4() {
			continue
		}
		p = p.Masked()
		wanted[p] = true
		link, err := linkTo(inside, via)
		if err != nil {
			return fmt.Errorf("route %s to %s: %w", p, via, err)
		}
		route := kernel.Route{Destination: p, LinkIndex: link, NextHop: via, Metric: metric}
		if err := inside.ReplaceRoute(route); err != nil {
			return fmt.Errorf("route %s to %s: %w", p, via, err)
		}
	}
	return inside.KeepRoutes(func(r kernel.Route) bool {
		return r.NextHop != via || kindOf(r.Metric) != kindOf(metric) || wanted[r.Destination]
	})
}

// servicesMetric is above the metrics of shared ranges.
const servicesMetric = 512

// sharedMetric differs from host to host, and from the metric of a host's own
// ranges.
func sharedMetric(via netip.Addr) int {
	b := via.AsSlice()
	return 1 + int(b[len(b)-1])
}

// kindOf tells the metrics of a host's own ranges, of shared ones and of Services apart.
func kindOf(metric int) int {
	switch {
	case metric == 0:
		return 0
	case metric < servicesMetric:
		return 1
	}
	return 2
}

// linkTo returns the index of the link whose addresses cover via.
func linkTo(s *kernel.Space, via netip.Addr) (int, error) {
	routes, err := s.Netlink.RouteGet(net.IP(via.AsSlice()))
	if err != nil {
		return 0, fmt.Errorf("look up next hop: %w", err)
	}
	if len(routes) == 0 || len(routes[0].Gw) != 0 {
		return 0, errors.New("next hop is not on the fabric")
	}
	return routes[0].LinkIndex, nil
}
