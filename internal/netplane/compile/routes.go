// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// hostRoutes adds the routes of the host's own programs.
//
// Their metrics are above 0, the metric of all other routes: neither an endpoint
// nor the way out can be taken over. Linux distinguishes routes to one destination
// by their metrics only, whereas Windows allows equal ones (flannel's tests add
// one), so each gets its own metric. Of equal ones the uplink's wins: the adapter
// of an endpoint on the host leads nowhere.
func (c *compiler) hostRoutes() error {
	links := map[string]bool{c.want.Uplink.Name: c.want.Uplink.Name != ""}
	for _, l := range c.plan.Links {
		links[l.Name] = true
	}
	var list []intent.HostRoute
	for _, r := range c.want.Routes {
		if !r.Destination.IsValid() || !r.Destination.Addr().Is4() || r.Destination.Addr().IsLoopback() {
			return fmt.Errorf("route to %s: not usable on a host", r.Destination)
		}
		if links[r.Link] {
			r.Destination = r.Destination.Masked()
			list = append(list, r)
		}
	}
	slices.SortStableFunc(list, func(a, b intent.HostRoute) int {
		return cmp.Or(cmp.Compare(a.Metric, b.Metric), cmp.Compare(c.rank(a.Link), c.rank(b.Link)))
	})
	next := map[netip.Prefix]int{}
	for _, r := range list {
		metric := max(r.Metric, next[r.Destination], 1)
		next[r.Destination] = metric + 1
		route := Route{Destination: r.Destination, Link: r.Link, Metric: metric}
		if r.NextHop.IsValid() && !r.NextHop.IsUnspecified() {
			// Windows does not check whether the next hop is in the adapter's
			// subnet.
			route.NextHop, route.OnLink = r.NextHop, true
		}
		c.plan.Routes = append(c.plan.Routes, route)
	}
	return nil
}

func (c *compiler) rank(link string) int {
	if link == c.want.Uplink.Name {
		return 0
	}
	return 1
}
