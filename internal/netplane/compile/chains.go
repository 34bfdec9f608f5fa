// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// Names of the sets and maps. Those of the front ends come in two pairs:
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
	frontKey        = "ip daddr . meta l4proto . th dport"
	nodePortKey     = "meta l4proto . th dport"
	toNode          = "fib daddr type local ip daddr != 127.0.0.0/8 "
	metadataService = "169.254.169.254" // the address under which clouds give out credentials (AWS, Azure, GCP)
	frontType       = "ipv4_addr . inet_proto . inet_service"
	nodePortType    = "inet_proto . inet_service"
	backendType     = "ipv4_addr . inet_service"
	sourceNode      = uint32(1) // connection mark: rewrite the source to the uplink's address
)

// sets lists all sets and maps. They exist always, so that a change of the
// intent never needs to change them.
func sets() []Set {
	// The last part of a backend's key is the number drawn, which is in the
	// packet's mark. (numgen itself could be the key of a map that is declared
	// with typeof, but nft 1.0.6 then refuses rules that refer to the map in a
	// later transaction: "conflicting protocols specified: ip vs. th".)
	return []Set{
		{Name: setEndpoints, Type: "ifname . ether_addr . ipv4_addr"},
		{Name: setLocal, Type: "ipv4_addr"},
		{Name: setHairpin, Type: "ipv4_addr . ipv4_addr"},
		{Name: mapFrontends, Type: frontType, Value: "verdict"},
		{Name: mapFrontendsOut, Type: frontType, Value: "verdict"},
		{Name: mapNodePorts, Type: nodePortType, Value: "verdict"},
		{Name: mapNodePortsOut, Type: nodePortType, Value: "verdict"},
		{Name: mapBackends, Type: frontType + " . mark", Value: backendType},
		{Name: mapNodeBackends, Type: nodePortType + " . mark", Value: backendType},
		{Name: mapOutbound, Type: "ipv4_addr", Value: "verdict"},
		{Name: mapACLIn, Type: "ipv4_addr", Value: "verdict"},
		{Name: mapACLOut, Type: "ipv4_addr", Value: "verdict"},
		{Name: mapPeers, Type: "ipv4_addr", Value: "verdict"},
	}
}

// baseChains returns the chains that do not depend on single objects.
func (c *compiler) baseChains() []Chain {
	return []Chain{
		{Name: "raw-prerouting", Type: "filter", Hook: "prerouting", Priority: "-300", Rules: []string{
			"iifname " + ours + " goto from-endpoint",
			// No other sender may use the endpoints' addresses either.
			"ip saddr @" + setLocal + " counter drop",
		}},
		{Name: "from-endpoint", Rules: []string{
			"ip daddr 127.0.0.0/8 counter drop",
			"iifname . ether saddr . ip saddr @" + setEndpoints + " accept",
			"counter drop",
		}},
		{Name: "nat-prerouting", Type: "nat", Hook: "prerouting", Priority: "-100", Rules: []string{
			"jump services",
			"iifname != " + ours + " jump services-outside",
		}},
		{Name: "nat-output", Type: "nat", Hook: "output", Priority: "-100", Rules: []string{
			"jump services",
		}},
		{Name: "services", Rules: []string{
			frontKey + " vmap @" + mapFrontends,
			toNode + nodePortKey + " vmap @" + mapNodePorts,
		}},
		{Name: "services-outside", Rules: []string{
			frontKey + " vmap @" + mapFrontendsOut,
			toNode + nodePortKey + " vmap @" + mapNodePortsOut,
		}},
		{Name: "nat-postrouting", Type: "nat", Hook: "postrouting", Priority: "100", Rules: c.sourceRules()},
		{Name: "filter-forward", Type: "filter", Hook: "forward", Priority: "0", Rules: []string{
			"ct state established,related accept",
			// A packet that conntrack cannot place would leave with an address
			// that NAT should have rewritten.
			"ct state invalid counter drop",
			"iifname != " + ours + " oifname != " + ours + " goto transit",
			"iifname " + ours + " ip daddr " + metadataService + " counter reject",
			"ip saddr vmap @" + mapACLOut,
			"ip daddr vmap @" + mapACLIn,
		}},
		// A node is not a router: it forwards other hosts' packets only to a backend.
		{Name: "transit", Rules: []string{
			"ct status dnat accept",
			"counter drop",
		}},
		{Name: "filter-input", Type: "filter", Hook: "input", Priority: "0", Rules: []string{
			"ct state established,related accept",
			"ip saddr vmap @" + mapACLOut,
		}},
		{Name: "filter-output", Type: "filter", Hook: "output", Priority: "0", Rules: c.outputRules()},
	}
}

// outputRules returns the rules for packets of the host's own programs.
func (c *compiler) outputRules() []string {
	var rules []string
	if c.want.NoLocalBackends {
		// Replies are of the other direction: a backend that is a program of the host answers its pods.
		rules = append(rules, "ct direction original ct status dnat ip daddr @"+setLocal+" counter drop")
	}
	return append(rules, "ct state established,related accept", "ip daddr vmap @"+mapACLIn)
}

// sourceRules returns the rules that rewrite source addresses.
func (c *compiler) sourceRules() []string {
	node := sourceTo(c.nodeAddress())
	rules := []string{
		// A backend that reached itself must see another client than itself.
		"ip saddr . ip daddr @" + setHairpin + " " + node,
		markRule(sourceNode, node),
	}
	for _, a := range c.sources {
		rules = append(rules, markRule(markOf(a), sourceTo(a)))
	}
	// With DSR a program of the host would enter an overlay with the host's address, to which nothing
	// inside can answer.
	for _, t := range c.tunnels {
		for _, a := range c.sources {
			if slices.ContainsFunc(t.subnets, func(p netip.Prefix) bool { return p.Contains(a) }) {
				rules = append(rules, fmt.Sprintf("oifname %q ct status dnat ip saddr != @%s %s", t.link, setLocal,
					sourceTo(a)))
			}
		}
	}
	return append(rules, "ip saddr vmap @"+mapOutbound)
}

// markRule rewrites the source of a connection to a load balancer without DSR, whichever its client
// and wherever its backend: without DSR, Windows translates both addresses.
func markRule(mark uint32, target string) string {
	return fmt.Sprintf("ct mark 0x%08x %s", mark, target)
}

// sourceTo returns the statement that gives a connection the source a.
func sourceTo(a netip.Addr) string {
	if !a.IsValid() {
		return "masquerade"
	}
	return "snat ip to " + a.String()
}

// markOf returns the connection mark that stands for a source address: the address
// itself. The packet mark is taken: it holds the number drawn.
func markOf(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}
