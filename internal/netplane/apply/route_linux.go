// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/mullion-k8s/mullion/internal/fault/undo"
	"github.com/mullion-k8s/mullion/internal/netplane/compile"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// routeKey identifies a route of the kernel's table.
type routeKey struct {
	destination netip.Prefix
	metric      int
}

func keyOf(r compile.Route) routeKey { return routeKey{r.Destination, r.Metric} }

// addRoutes sets the routes that are new or different.
func (p *Plane) addRoutes(old, plan *compile.Plan, trusted bool, back *undo.Stack) error {
	known := map[routeKey]compile.Route{}
	remade := map[string]bool{} // a link that was made again has lost its routes
	if trusted {
		for _, r := range old.Routes {
			known[keyOf(r)] = r
		}
		for _, l := range newLinks(old, plan, trusted) {
			remade[l.Name] = true
		}
	}
	index := map[string]int{}
	for _, r := range plan.Routes {
		before, had := known[keyOf(r)]
		if had && before == r && !remade[r.Link] {
			continue
		}
		k := kernel.Route{
			Destination: r.Destination, NextHop: r.NextHop, OnLink: r.OnLink, Source: r.Source, Metric: r.Metric,
		}
		if r.Link != "" {
			if index[r.Link] == 0 {
				link, err := p.space.FindLink(r.Link)
				if err != nil {
					return err
				}
				if link == nil {
					return fmt.Errorf("set route to %s: no link %s", r.Destination, r.Link)
				}
				index[r.Link] = link.Attrs().Index
			}
			k.LinkIndex = index[r.Link]
		}
		if err := p.space.ReplaceRoute(k); err != nil {
			return err
		}
		if !had && trusted {
			back.Add("delete route "+r.Destination.String(), func(context.Context) error {
				return p.space.DeleteRoute(r.Destination, r.Metric)
			})
		}
	}
	return nil
}

// removeOthers removes the links, addresses and routes that are not in plan.
func (p *Plane) removeOthers(ctx context.Context, old, plan *compile.Plan, trusted bool) error {
	wanted := map[string]*compile.Link{}
	for i := range plan.Links {
		wanted[plan.Links[i].Name] = &plan.Links[i]
	}
	var present []string
	if trusted {
		for _, l := range old.Links {
			present = append(present, l.Name)
		}
	} else {
		links, err := kernel.List(p.space.Netlink.LinkList)
		if err != nil {
			return fmt.Errorf("list links: %w", err)
		}
		for _, l := range links {
			name := l.Attrs().Name
			if strings.HasPrefix(name, compile.LinkPrefix) || strings.HasPrefix(name, compile.TunnelPrefix) {
				present = append(present, name)
			}
		}
	}
	for _, name := range present {
		if err := ctx.Err(); err != nil {
			return err
		}
		if wanted[name] == nil {
			if err := p.space.DeleteLink(name); err != nil {
				return err
			}
		}
	}
	for _, want := range newLinks(old, plan, trusted) {
		link, err := p.space.FindLink(want.Name)
		if err != nil {
			return err
		}
		if link == nil {
			continue
		}
		if err := p.space.KeepAddresses(link, want.Addresses); err != nil {
			return err
		}
		if want.Kind == compile.VXLAN {
			if err := p.keepPeers(link, want); err != nil {
				return err
			}
		} else if trusted {
			if err := p.removeNeighbours(link, neighboursOf(old, want.Name), want.Neighbours); err != nil {
				return err
			}
		}
	}
	if err := p.removeProxies(old, plan, trusted); err != nil {
		return err
	}
	return p.removeRoutes(old, plan, trusted)
}

func neighboursOf(plan *compile.Plan, link string) []compile.Neighbour {
	i := slices.IndexFunc(plan.Links, func(l compile.Link) bool { return l.Name == link })
	if i < 0 {
		return nil
	}
	return plan.Links[i].Neighbours
}

// removeNeighbours removes the neighbours of old that are not wanted. An untrusted plan's are left to the link: no
// route leads to them.
func (p *Plane) removeNeighbours(link netlink.Link, old, want []compile.Neighbour) error {
	for _, n := range old {
		if slices.ContainsFunc(want, func(w compile.Neighbour) bool { return w.Address == n.Address }) {
			continue
		}
		if err := p.space.DeleteNeighbour(link, n.Address); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plane) removeRoutes(old, plan *compile.Plan, trusted bool) error {
	wanted := map[routeKey]bool{}
	for _, r := range plan.Routes {
		wanted[keyOf(r)] = true
	}
	if trusted {
		gone := false
		for _, r := range old.Routes {
			gone = gone || !wanted[keyOf(r)]
		}
		if !gone {
			return nil
		}
	}
	ways := []routeKey{ // made with the uplink
		{destination: netip.PrefixFrom(netip.IPv4Unspecified(), 0)},
		{destination: netip.PrefixFrom(netip.IPv6Unspecified(), 0)},
	}
	return p.space.KeepRoutes(func(r kernel.Route) bool {
		key := routeKey{r.Destination, r.Metric}
		return wanted[key] || slices.Contains(ways, key)
	})
}
