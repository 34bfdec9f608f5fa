// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// Names of the sets and maps. The maps of the front ends come in two pairs:
// reachable from everywhere, or not from the host itself and its endpoints.
const (
	setEndpoints    = "endpoints"       // who may send: link . MAC . address
	setLocal        = "local-addresses" // addresses of this host's endpoints
	setHairpin      = "hairpin"         // address . same address
	mapFrontends    = "frontends"
	mapNodePorts    = "nodeports"
	mapFrontendsOut = "frontends-outside"
	mapNodePortsOut = "nodeports-outside"
	mapBackends     = "backends"
	mapNodeBackends = "nodeport-backends"
	mapOutbound     = "outbound"
	mapACLIn        = "acl-in"
	mapACLOut       = "acl-out"
	mapPeers        = "peers" // other hosts of the overlays
	ours            = `"` + LinkPrefix + `*"`
	nodePortKey     = "meta l4proto . th dport"
	nodePortType    = "inet_proto . inet_service"
	established     = "ct state established,related accept"
	sourceNode      = uint32(1) // connection mark: rewrite the source to the uplink's address
)

// sets lists all sets and maps. The sets of a family exist whenever the host has
// it, so that a change of the other objects never changes them; except the sets of
// preserved front ends, which are rare.
func (c *compiler) sets() []Set {
	list := []Set{{Name: mapPeers, Type: ipv4().address, Value: "verdict"}}
	for _, f := range c.families {
		list = append(list, f.sets()...)
		if len(c.preserved) > 0 {
			list = append(list, preservedSets(f)...)
		}
	}
	return list
}

func (f family) sets() []Set {
	frontType, backendType := f.address+" . "+nodePortType, f.address+" . inet_service"
	// The last part of a backend's key is the number drawn, which is in the
	// packet's mark. (numgen itself could be the key of a map that is declared
	// with typeof, but nft 1.0.6 then refuses rules that refer to the map in a
	// later transaction: "conflicting protocols specified: ip vs. th".)
	return []Set{
		{Name: f.set(setEndpoints), Type: "ifname . ether_addr . " + f.address},
		{Name: f.set(setLocal), Type: f.address},
		{Name: f.set(setHairpin), Type: f.address + " . " + f.address},
		{Name: f.set(mapFrontends), Type: frontType, Value: "verdict"},
		{Name: f.set(mapFrontendsOut), Type: frontType, Value: "verdict"},
		{Name: f.set(mapNodePorts), Type: nodePortType, Value: "verdict"},
		{Name: f.set(mapNodePortsOut), Type: nodePortType, Value: "verdict"},
		{Name: f.set(mapBackends), Type: frontType + " . mark", Value: backendType},
		{Name: f.set(mapNodeBackends), Type: nodePortType + " . mark", Value: backendType},
		{Name: f.set(mapOutbound), Type: f.address, Value: "verdict"},
		{Name: f.set(mapACLIn), Type: f.address, Value: "verdict"},
		{Name: f.set(mapACLOut), Type: f.address, Value: "verdict"},
	}
}

// each returns the rules that rule makes for each family of the host.
func (c *compiler) each(rule func(f family) []string) []string {
	var list []string
	for _, f := range c.families {
		list = append(list, rule(f)...)
	}
	return list
}

// vmaps looks an address up in a map of each family.
func (c *compiler) vmaps(field, set string) []string {
	return c.each(func(f family) []string { return []string{f.word + " " + field + " vmap @" + f.set(set)} })
}

// serviceRules looks for the front end that a packet is for.
func (c *compiler) serviceRules(fronts, nodePorts string) []string {
	return c.each(func(f family) []string {
		return []string{
			f.frontKey() + " vmap @" + f.set(fronts),
			f.toNode() + nodePortKey + " vmap @" + f.set(nodePorts),
		}
	})
}

// baseChains returns the chains that do not depend on single objects.
func (c *compiler) baseChains() []Chain {
	return []Chain{
		{Name: "raw-prerouting", Type: "filter", Hook: "prerouting", Priority: "-300", Rules: append(
			[]string{"iifname " + ours + " goto from-endpoint"},
			// No other sender may use the endpoints' addresses either.
			c.each(func(f family) []string {
				return []string{f.word + " saddr @" + f.set(setLocal) + " counter drop"}
			})...)},
		{Name: "from-endpoint", Rules: append(c.each(func(f family) []string {
			return []string{"iifname . ether saddr . " + f.word + " saddr @" + f.set(setEndpoints) + " accept"}
		}), "counter drop")},
		{Name: "nat-prerouting", Type: "nat", Hook: "prerouting", Priority: "-100", Rules: []string{
			"jump services",
			"iifname != " + ours + " jump services-outside",
		}},
		{Name: "nat-output", Type: "nat", Hook: "output", Priority: "-100", Rules: []string{
			"jump services",
		}},
		{Name: "services", Rules: c.serviceRules(mapFrontends, mapNodePorts)},
		{Name: "services-outside", Rules: c.serviceRules(mapFrontendsOut, mapNodePortsOut)},
		{Name: "nat-postrouting", Type: "nat", Hook: "postrouting", Priority: "100", Rules: c.sourceRules()},
		{Name: "filter-forward", Type: "filter", Hook: "forward", Priority: "0", Rules: c.forwardRules()},
		// A node is not a router: it forwards other hosts' packets only to a backend.
		{Name: "transit", Rules: []string{
			"ct status dnat accept",
			"counter drop",
		}},
		{Name: "filter-input", Type: "filter", Hook: "input", Priority: "0", Rules: c.inputRules()},
		{Name: "filter-output", Type: "filter", Hook: "output", Priority: "0", Rules: c.outputRules()},
	}
}

// forwardRules returns the rules for packets between endpoints, and between them and others.
func (c *compiler) forwardRules() []string {
	rules := []string{
		established,
		// A packet that conntrack cannot place would leave with an address
		// that NAT should have rewritten.
		"ct state invalid counter drop",
		"iifname != " + ours + " oifname != " + ours + " goto transit",
	}
	rules = append(rules, c.each(func(f family) []string {
		return []string{"iifname " + ours + " " + f.word + " daddr " + f.metadata.String() + " counter reject"}
	})...)
	rules = append(rules, c.vmaps("saddr", mapACLOut)...)
	return append(rules, c.vmaps("daddr", mapACLIn)...)
}

// inputRules returns the rules for packets to the host's own programs. An endpoint must not reach their
// loopback addresses. The kernel never forwards a packet to one, so only the packets that come in are compared.
func (c *compiler) inputRules() []string {
	rules := c.each(func(f family) []string {
		return []string{f.word + " daddr " + f.loopback + " iifname " + ours + " counter drop"}
	})
	return append(append(rules, established), c.vmaps("saddr", mapACLOut)...)
}

// outputRules returns the rules for packets of the host's own programs.
func (c *compiler) outputRules() []string {
	var rules []string
	if c.want.NoLocalBackends {
		// Replies are of the other direction: a backend that is a program of the host answers its pods.
		rules = append(rules, c.each(func(f family) []string {
			return []string{
				"ct direction original ct status dnat " + f.word + " daddr @" + f.set(setLocal) + " counter drop",
			}
		})...)
	}
	return append(append(rules, established), c.vmaps("daddr", mapACLIn)...)
}

// sourceRules returns the rules that rewrite source addresses.
func (c *compiler) sourceRules() []string {
	// A backend that reached itself must see another client than itself.
	rules := c.each(func(f family) []string {
		return []string{f.word + " saddr . " + f.word + " daddr @" + f.set(setHairpin) + " " +
			f.sourceTo(f.node(c.want.Uplink))}
	})
	rules = append(rules, c.each(func(f family) []string {
		return []string{c.nodeRule(f)}
	})...)
	for _, a := range c.sources {
		rules = append(rules, markRule(markOf(a), ipv4().sourceTo(a)))
	}
	// With DSR a program of the host would enter an overlay with the host's address, to which no pod
	// inside can answer.
	for _, t := range c.tunnels {
		for _, a := range c.sources {
			if slices.ContainsFunc(t.subnets, func(p netip.Prefix) bool { return p.Contains(a) }) {
				rules = append(rules, fmt.Sprintf("oifname %q ct status dnat ip saddr != @%s %s", t.link, setLocal,
					ipv4().sourceTo(a)))
			}
		}
	}
	return append(rules, c.vmaps("saddr", mapOutbound)...)
}

// nodeRule gives a connection to a load balancer without DSR the host's address. A statement of one family has
// no effect on packets of the other (Linux, net/netfilter/nft_nat.c, nft_nat_inet_eval), but masquerade would.
func (c *compiler) nodeRule(f family) string {
	rule := markRule(sourceNode, f.sourceTo(f.node(c.want.Uplink)))
	if len(c.families) == 1 {
		return rule
	}
	return "meta nfproto " + f.protocol + " " + rule
}

// markRule rewrites the source of a connection to a load balancer without DSR, whichever its client
// and wherever its backend: without DSR, Windows translates both addresses.
func markRule(mark uint32, target string) string {
	return fmt.Sprintf("ct mark 0x%08x %s", mark, target)
}

// markOf returns the connection mark that stands for a source address: the address
// itself. The packet mark is taken: it holds the number drawn.
func markOf(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}
