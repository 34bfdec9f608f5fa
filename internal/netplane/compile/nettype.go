// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"net/netip"
	"slices"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// The types of networks differ in whom their endpoints reach
// (https://learn.microsoft.com/virtualization/windowscontainers/container-networking/network-drivers-topologies,
// read 2026-11):
//
//   - Transparent: they are in the nodes' own network, as is an L2Bridge whose subnet is the nodes'.
//   - L2Bridge, L2Tunnel and Overlay: routers know their subnet.
//   - NAT and ICS: an internal switch. They reach everything with the host's address; from outside only traffic of
//     a port mapping or a load balancer arrives.
//   - Private: a switch without the host. They reach each other only.

// onNodeNetwork reports whether the network's endpoints are in the nodes' own network, of which the host must not hold
// the gateway nor the rest of the range.
func (c *compiler) onNodeNetwork(n *intent.Network) bool {
	switch n.Type {
	case intent.Transparent:
		return true
	case intent.L2Bridge, intent.L2Tunnel:
		return slices.ContainsFunc(n.Subnets, func(s intent.Subnet) bool {
			u := c.want.Uplink
			return s.Prefix.IsValid() && (s.Prefix.Overlaps(u.Address) || s.Prefix.Overlaps(u.Address6))
		})
	}
	return false
}

// proxies lists the addresses that the uplink answers for: the addresses of endpoints in the nodes' own
// network.
func (c *compiler) proxies() {
	for i := range c.want.Endpoints {
		e := &c.want.Endpoints[i]
		n := c.networks[e.NetworkID]
		if n == nil || !e.Attached() || c.want.Uplink.Name == "" || !c.onNodeNetwork(n) {
			continue
		}
		for _, a := range c.addresses(e) {
			c.plan.Proxies = addSorted(c.plan.Proxies, a.Addr())
		}
	}
	set := func(path, value string) { c.plan.Sysctls = append(c.plan.Sysctls, Sysctl{path, value}) }
	for _, f := range c.families {
		if !slices.ContainsFunc(c.plan.Proxies, f.has) {
			continue
		}
		// At once, see attachedEndpoint.
		set("net/"+f.protocol+"/neigh/"+c.want.Uplink.Name+"/proxy_delay", "0")
		if f.suffix != "" {
			set("net/ipv6/conf/"+c.want.Uplink.Name+"/proxy_ndp", "1")
		}
	}
}

// closeNetworks adds the rules of networks that are closed, to the outside or to everything, to the base chains.
func (c *compiler) closeNetworks(chains []Chain) []Chain {
	byName := chainsByName(chains)
	insert := func(chain, after, rule string) {
		rules := byName[chain].Rules
		byName[chain].Rules = slices.Insert(rules, slices.Index(rules, after)+1, rule)
	}
	internal := false
	for i := range c.want.Networks {
		n := &c.want.Networks[i]
		for _, f := range c.families {
			members := c.members(n, f)
			if members == "" {
				continue
			}
			to, others := f.word+" daddr "+members+" ", f.word+" saddr != "+members+" "
			switch n.Type {
			case intent.NAT, intent.ICS:
				internal = true
				insert("filter-forward", established, to+others+"jump internal") // answers come from anywhere
			case intent.Private:
				insert("from-endpoint", "", f.word+" saddr "+members+" "+f.word+" daddr != "+members+" counter drop")
				insert("filter-forward", "", to+others+"counter drop")
				insert("filter-output", "", to+"counter drop")
			}
		}
	}
	if internal {
		chains = append(chains, Chain{Name: "internal", Rules: []string{
			"ct status dnat return",
			"counter drop",
		}})
	}
	return chains
}

func chainsByName(chains []Chain) map[string]*Chain {
	byName := map[string]*Chain{}
	for i := range chains {
		byName[chains[i].Name] = &chains[i]
	}
	return byName
}

// members returns the addresses of a network's attached endpoints as nft reads them, or "".
func (c *compiler) members(n *intent.Network, f family) string {
	if n.Type != intent.NAT && n.Type != intent.ICS && n.Type != intent.Private {
		return ""
	}
	var list []netip.Addr
	for i := range c.want.Endpoints {
		e := &c.want.Endpoints[i]
		if e.NetworkID != n.ID || !e.Attached() {
			continue
		}
		for _, a := range c.addresses(e) {
			if f.has(a.Addr()) {
				list = addSorted(list, a.Addr())
			}
		}
	}
	if len(list) == 0 {
		return ""
	}
	return "{ " + join(list) + " }"
}
