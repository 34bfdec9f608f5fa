// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Front is one port of an address of the pool. The router sends its connections to nodes, with
// the address as their destination: kube-proxy has it as a front end on every node.
type Front struct {
	Address  netip.Addr
	Protocol string // "tcp" or "udp"
	Port     uint16
	// Sources may open connections; an empty list means every client, or with Closed no
	// client at all.
	Sources []netip.Prefix
	Closed  bool
	// ByClient sends all connections of a client to the same node.
	ByClient bool
	Nodes    []Target
}

// Target is a node that a Front may use.
type Target struct {
	// Address is the node's in IPv4, also in a Front of IPv6: the fabric gives its hosts MAC addresses by it.
	Address netip.Addr
	// Fit nodes get new connections. The others keep their connections.
	Fit bool
}

// Names of the router's sets and maps.
const (
	balanceTable = "load-balancer"
	mapFlowsTCP  = "flows-tcp"
	mapFlowsUDP  = "flows-udp"
	mapFragments = "fragments"
	setKnown     = "known"   // front end and node: keeps connections
	setFit       = "fit"     // front end and node: gets new ones
	setLimited   = "limited" // front ends with a list of sources
	setSources   = "sources"
	mapPicks     = "picks" // front end → chain that draws a node
	mapNodes     = "nodes" // front end and number drawn → node

	// At most this many connections of each protocol are remembered, some 8 MB. Further connections follow
	// the hash of their addresses and ports, and move when the set of nodes changes.
	maxFlows = 65536
	// How long an idle connection is remembered. Clouds take 4 to 10 minutes for TCP; conntrack takes 2
	// minutes for UDP.
	idleTCP, idleUDP = "1h", "2m"
	// Only the first fragment of a datagram has ports. The others have its addresses and identification, and follow
	// it to its node. A receiver gives up after as long (ip-sysctl, ipfrag_time), in IPv6 after twice as long
	// (ip6frag_time). Fragments that overtake the first one are lost.
	idleFragment = "30s"
	// balanceSeed makes the draw for a connection the same after a restart ("mull" in ASCII).
	balanceSeed = "0x6d756c6c"
)

// balance returns the transaction for nft(8) that makes the router spread connections to the
// fronts only. It does not depend on the previous rules, and leaves the memory of connections
// alone.
//
// The router decides on frames: it gives a packet the MAC address of the node, which is all that
// the bridge needs. Replies go from the node to the client without passing here, so conntrack,
// which wants to see both directions, cannot remember where a connection went; maps that the
// rules fill can.
func balance(router netip.Addr, pools []netip.Prefix, fronts []Front) (string, error) {
	if err := CheckFronts(pools, fronts); err != nil {
		return "", fmt.Errorf("spread connections: %w", err)
	}
	t := balanceScript{router: router, elements: map[string][]string{}}
	t.line("add table bridge %s", balanceTable)
	for _, pool := range pools {
		t.sets(familyOf(pool.Addr()))
	}
	t.chains(pools)
	draws := map[string][]string{}
	for _, f := range fronts {
		t.front(f, draws)
	}
	for _, name := range slices.Sorted(maps.Keys(draws)) {
		t.chain(name, "", draws[name]...)
	}
	for _, set := range slices.Sorted(maps.Keys(t.elements)) {
		t.line("add element bridge %s %s { %s }", balanceTable, set, strings.Join(t.elements[set], ", "))
	}
	return t.String(), nil
}

// balanceScript collects the lines of the transaction.
type balanceScript struct {
	strings.Builder
	router   netip.Addr
	elements map[string][]string // by set
}

func (t *balanceScript) line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

// set makes an empty set or map.
func (t *balanceScript) set(kind, name, declaration string) {
	t.line("add %s bridge %s %s { type %s ; }", kind, balanceTable, name, declaration)
	t.line("flush %s bridge %s %s", kind, balanceTable, name)
}

// chain makes a chain with exactly these rules.
func (t *balanceScript) chain(name, hook string, rules ...string) {
	t.line("add chain bridge %s %s%s", balanceTable, name, hook)
	t.line("flush chain bridge %s %s", balanceTable, name)
	for _, r := range rules {
		t.line("add rule bridge %s %s %s", balanceTable, name, r)
	}
}

// sets makes the sets of a family.
func (t *balanceScript) sets(a balanceFamily) {
	// Not all parts of the keys have named types, so the maps are declared by their keys.
	for _, m := range []struct{ name, key, idle string }{{mapFlowsTCP, a.flowKey("tcp"), idleTCP},
		{mapFlowsUDP, a.flowKey("udp"), idleUDP}, {mapFragments, a.datagramKey(), idleFragment}} {
		t.line("add map bridge %s %s { typeof %s : ether daddr ; flags dynamic,timeout ; timeout %s ; size %d ; }",
			balanceTable, a.named(m.name), m.key, m.idle, maxFlows)
	}
	t.set("set", a.named(setKnown), a.frontType()+" . ether_addr")
	t.set("set", a.named(setFit), a.frontType()+" . ether_addr")
	t.set("set", a.named(setLimited), a.frontType())
	t.set("set", a.named(setSources), a.frontType()+" . "+a.address+" ; flags interval")
	t.set("map", a.named(mapPicks), a.frontType()+" : verdict")
	t.set("map", a.named(mapNodes), a.frontType()+" . mark : ether_addr")
}

// chains makes the chains that do not depend on the fronts.
func (t *balanceScript) chains(pools []netip.Prefix) {
	rules := []string{"ether daddr != " + mac(t.router) + " accept"}
	for _, pool := range pools {
		a := familyOf(pool.Addr())
		t.chain(a.named("remember"), "", append(a.prepare,
			"update @"+a.named(mapFlowsTCP)+" { "+a.flowKey("tcp")+" : ether daddr }",
			"update @"+a.named(mapFlowsUDP)+" { "+a.flowKey("udp")+" : ether daddr }",
			a.moreFragments+" update @"+a.named(mapFragments)+" { "+a.datagramKey()+" : ether daddr }",
			"accept")...)
		t.chain(a.named("later-fragment"), "",
			"ether daddr set "+a.datagramKey()+" map @"+a.named(mapFragments),
			"accept")
		t.chain(a.named("spread"), "", t.spread(a)...)
		rules = append(rules, a.ip+" daddr "+pool.String()+" goto "+a.named("spread"))
	}
	t.chain("prerouting", " { type filter hook prerouting priority -300 ; }", rules...)
	// Other packets go to the router itself, whose route to the pool is "unreachable".
}

// spread returns the rules for packets to a pool.
func (t *balanceScript) spread(a balanceFamily) []string {
	node := " . ether daddr @"
	return append(a.prepare,
		a.laterFragment+" goto "+a.named("later-fragment"),
		"ether daddr set "+a.flowKey("tcp")+" map @"+a.named(mapFlowsTCP),
		"ether daddr set "+a.flowKey("udp")+" map @"+a.named(mapFlowsUDP),
		// A node that is not fit keeps its TCP connections only: datagrams do not show
		// which one is the first.
		"tcp flags & (syn|ack) != syn "+a.frontKey()+node+a.named(setKnown)+" goto "+a.named("remember"),
		a.frontKey()+node+a.named(setFit)+" goto "+a.named("remember"),
		"ether daddr set "+mac(t.router),
		a.frontKey()+" @"+a.named(setLimited)+" "+a.frontKey()+" . "+a.ip+" saddr != @"+
			a.named(setSources)+" counter drop",
		a.frontKey()+" vmap @"+a.named(mapPicks))
}

// front adds the elements of one front end. draws collects the chains that it needs, and their rules.
func (t *balanceScript) front(f Front, draws map[string][]string) {
	a := familyOf(f.Address)
	add := func(set, format string, args ...any) {
		set = a.named(set)
		t.elements[set] = append(t.elements[set], fmt.Sprintf(format, args...))
	}
	key := fmt.Sprintf("%s . %s . %d", f.Address, f.Protocol, f.Port)
	if len(f.Sources) > 0 || f.Closed {
		add(setLimited, "%s", key)
	}
	for _, s := range f.Sources {
		add(setSources, "%s . %s", key, s)
	}
	fit := 0
	for _, n := range slices.SortedFunc(slices.Values(f.Nodes), func(a, b Target) int {
		return a.Address.Compare(b.Address)
	}) {
		add(setKnown, "%s . %s", key, mac(n.Address))
		if n.Fit {
			add(setFit, "%s . %s", key, mac(n.Address))
			add(mapNodes, "%s . %d : %s", key, fit, mac(n.Address))
			fit++
		}
	}
	if fit == 0 {
		return
	}
	name, of := fmt.Sprintf("pick-%d-%s", fit, f.Protocol), a.drawKey(f.Protocol)
	if f.ByClient {
		name, of = fmt.Sprintf("pick-%d-by-client", fit), a.ip+" saddr"
	}
	name = a.named(name)
	draws[name] = []string{
		fmt.Sprintf("meta mark set jhash %s mod %d seed %s", of, fit, balanceSeed),
		"ether daddr set " + a.frontKey() + " . meta mark map @" + a.named(mapNodes),
		"goto " + a.named("remember"),
	}
	add(mapPicks, "%s : goto %s", key, name)
}

// CheckFronts returns an error if Set would refuse the fronts.
func CheckFronts(pools []netip.Prefix, fronts []Front) error {
	type front struct {
		address  netip.Addr
		protocol string
		port     uint16
	}
	seen := map[front]bool{}
	for _, f := range fronts {
		name := fmt.Sprintf("%s %s %d", f.Address, f.Protocol, f.Port)
		switch {
		case !slices.ContainsFunc(pools, func(p netip.Prefix) bool { return p.Contains(f.Address) }):
			return fmt.Errorf("%s: not an address of the pool %s", name, poolNames(pools))
		case f.Protocol != "tcp" && f.Protocol != "udp" || f.Port == 0:
			return fmt.Errorf("%s: not a port of TCP or UDP", name)
		case seen[front{f.Address, f.Protocol, f.Port}]:
			return fmt.Errorf("%s: listed twice", name)
		}
		seen[front{f.Address, f.Protocol, f.Port}] = true
		for i, s := range f.Sources {
			if s.Addr().Is4() != f.Address.Is4() || s != s.Masked() {
				return fmt.Errorf("%s: source %s: not a range of its family", name, s)
			}
			// Elements of an interval set must not overlap.
			for _, other := range f.Sources[:i] {
				if s.Overlaps(other) {
					return fmt.Errorf("%s: sources %s and %s overlap", name, other, s)
				}
			}
		}
		for i, n := range f.Nodes {
			if !n.Address.Is4() {
				return fmt.Errorf("%s: node %s: not an IPv4 address", name, n.Address)
			}
			if slices.ContainsFunc(f.Nodes[:i], func(o Target) bool { return o.Address == n.Address }) {
				return fmt.Errorf("%s: node %s: listed twice", name, n.Address)
			}
		}
	}
	return nil
}

func poolNames(pools []netip.Prefix) string {
	var out []string
	for _, p := range pools {
		out = append(out, p.String())
	}
	return strings.Join(out, " or ")
}

// Disjoint returns ranges with the same addresses as the given ones, without nested ranges.
// Ranges overlap only if one contains the other.
func Disjoint(ranges []netip.Prefix) []netip.Prefix {
	sorted := slices.SortedFunc(slices.Values(ranges), func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var out []netip.Prefix
	for _, r := range sorted {
		if len(out) == 0 || !out[len(out)-1].Overlaps(r) {
			out = append(out, r)
		}
	}
	return out
}
