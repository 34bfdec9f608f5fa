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
	// Sources may open connections; none means everybody.
	Sources []netip.Prefix
	// ByClient sends all connections of a client to the same node.
	ByClient bool
	Nodes    []Target
}

// Target is a node that a Front may use.
type Target struct {
	Address netip.Addr
	// Fit nodes get new connections. The others keep what they have.
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

	frontKey  = "ip daddr . ip protocol . th dport"
	frontType = "ipv4_addr . inet_proto . inet_service"
	flowType  = "ipv4_addr . ipv4_addr . inet_service . inet_service"
	// At most this many connections of each protocol are remembered, some 8 MB. What is beyond follows the
	// hash of its addresses and ports, and moves when the set of nodes changes.
	maxFlows = 65536
	// How long an idle connection is remembered. Clouds take 4 to 10 minutes for TCP; conntrack takes 2
	// minutes for UDP.
	idleTCP, idleUDP = "1h", "2m"
	// Only the first fragment of a datagram has ports. The others have its addresses, protocol and identification
	// (RFC 791, section 3.2), and follow it to its node. A receiver gives up after as long (ip-sysctl,
	// ipfrag_time). Those that overtake the first one are lost.
	datagramKey  = "ip saddr . ip daddr . ip protocol . ip id"
	idleFragment = "30s"
	// balanceSeed makes the draw for a connection the same after a restart ("mull" in ASCII).
	balanceSeed = "0x6d756c6c"
)

// flowKey tells the connections of a protocol apart.
func flowKey(protocol string) string {
	return fmt.Sprintf("ip saddr . ip daddr . %[1]s sport . %[1]s dport", protocol)
}

// balance returns the transaction for nft(8) that makes the router spread connections to the
// fronts, and to nothing else. It is the same whatever was there before, and leaves the memory
// of connections alone.
//
// The router decides on frames: it gives a packet the MAC address of the node, which is all that
// the bridge needs. Replies go from the node to the client without passing here, so conntrack,
// which wants to see both directions, cannot remember where a connection went; maps that the
// rules fill can.
func balance(router netip.Addr, pool netip.Prefix, fronts []Front) (string, error) {
	if err := checkFronts(pool, fronts); err != nil {
		return "", fmt.Errorf("spread connections: %w", err)
	}
	t := balanceScript{elements: map[string][]string{}}
	t.line("add table bridge %s", balanceTable)
	for _, m := range []struct{ name, idle string }{{mapFlowsTCP, idleTCP}, {mapFlowsUDP, idleUDP}} {
		t.line("add map bridge %s %s { type %s : ether_addr ; flags dynamic,timeout ; timeout %s ; size %d ; }",
			balanceTable, m.name, flowType, m.idle, maxFlows)
	}
	// The identification has no named type, so the map is declared by its key.
	t.line("add map bridge %s %s { typeof %s : ether daddr ; flags dynamic,timeout ; timeout %s ; size %d ; }",
		balanceTable, mapFragments, datagramKey, idleFragment, maxFlows)
	t.set("set", setKnown, frontType+" . ether_addr")
	t.set("set", setFit, frontType+" . ether_addr")
	t.set("set", setLimited, frontType)
	t.set("set", setSources, frontType+" . ipv4_addr ; flags interval")
	t.set("map", mapPicks, frontType+" : verdict")
	t.set("map", mapNodes, frontType+" . mark : ether_addr")
	t.chains(router, pool)
	draws := map[string]string{}
	for _, f := range fronts {
		t.front(f, draws)
	}
	for _, name := range slices.Sorted(maps.Keys(draws)) {
		t.chain(name, "", draws[name], "ether daddr set "+frontKey+" . meta mark map @"+mapNodes, "goto remember")
	}
	for _, set := range slices.Sorted(maps.Keys(t.elements)) {
		t.line("add element bridge %s %s { %s }", balanceTable, set, strings.Join(t.elements[set], ", "))
	}
	return t.String(), nil
}

// balanceScript collects the lines of the transaction.
type balanceScript struct {
	strings.Builder
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

// chains makes those that do not depend on the fronts.
func (t *balanceScript) chains(router netip.Addr, pool netip.Prefix) {
	node := " . ether daddr @"
	t.chain("remember", "",
		"update @"+mapFlowsTCP+" { "+flowKey("tcp")+" : ether daddr }",
		"update @"+mapFlowsUDP+" { "+flowKey("udp")+" : ether daddr }",
		"ip frag-off & 0x2000 != 0 update @"+mapFragments+" { "+datagramKey+" : ether daddr }", // more will come
		"accept")
	t.chain("later-fragment", "",
		"ether daddr set "+datagramKey+" map @"+mapFragments,
		"accept")
	t.chain("prerouting", " { type filter hook prerouting priority -300 ; }",
		"ether daddr != "+mac(router)+" accept",
		"ip daddr != "+pool.String()+" accept",
		"ip frag-off & 0x1fff != 0 goto later-fragment",
		"ether daddr set "+flowKey("tcp")+" map @"+mapFlowsTCP,
		"ether daddr set "+flowKey("udp")+" map @"+mapFlowsUDP,
		// A node that is not fit keeps its TCP connections, nothing else: datagrams do not
		// show which one is the first.
		"tcp flags & (syn|ack) != syn "+frontKey+node+setKnown+" goto remember",
		frontKey+node+setFit+" goto remember",
		"ether daddr set "+mac(router),
		frontKey+" @"+setLimited+" "+frontKey+" . ip saddr != @"+setSources+" counter drop",
		frontKey+" vmap @"+mapPicks)
	// What is left goes to the router itself, whose route to the pool is "unreachable".
}

// front adds the elements of one front end. draws collects the chains that it needs.
func (t *balanceScript) front(f Front, draws map[string]string) {
	add := func(set, format string, args ...any) {
		t.elements[set] = append(t.elements[set], fmt.Sprintf(format, args...))
	}
	key := fmt.Sprintf("%s . %s . %d", f.Address, f.Protocol, f.Port)
	if len(f.Sources) > 0 {
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
	name, of := fmt.Sprintf("pick-%d-%s", fit, f.Protocol), flowKey(f.Protocol)
	if f.ByClient {
		name, of = fmt.Sprintf("pick-%d-by-client", fit), "ip saddr"
	}
	draws[name] = fmt.Sprintf("meta mark set jhash %s mod %d seed %s", of, fit, balanceSeed)
	add(mapPicks, "%s : goto %s", key, name)
}

func checkFronts(pool netip.Prefix, fronts []Front) error {
	type front struct {
		address  netip.Addr
		protocol string
		port     uint16
	}
	seen := map[front]bool{}
	for _, f := range fronts {
		name := fmt.Sprintf("%s %s %d", f.Address, f.Protocol, f.Port)
		switch {
		case !pool.Contains(f.Address):
			return fmt.Errorf("%s: not an address of the pool %s", name, pool)
		case f.Protocol != "tcp" && f.Protocol != "udp" || f.Port == 0:
			return fmt.Errorf("%s: not a port of TCP or UDP", name)
		case seen[front{f.Address, f.Protocol, f.Port}]:
			return fmt.Errorf("%s: listed twice", name)
		}
		seen[front{f.Address, f.Protocol, f.Port}] = true
		for i, s := range f.Sources {
			if !s.Addr().Is4() || s != s.Masked() {
				return fmt.Errorf("%s: source %s: not an IPv4 range", name, s)
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

// CheckPool returns an error if the addresses of a range cannot be given to Services.
func CheckPool(pool netip.Prefix) error {
	switch {
	case !pool.Addr().Is4() || pool != pool.Masked():
		return fmt.Errorf("load balancer pool %s: not an IPv4 range, as 10.90.0.0/24", pool)
	case pool.Bits() < 16:
		return fmt.Errorf("load balancer pool %s: want 65536 addresses or fewer", pool)
	case pool.Addr().IsLoopback(), pool.Addr().IsMulticast(), pool.Addr().IsLinkLocalUnicast(),
		pool.Addr().As4()[0] == 0:
		return fmt.Errorf("load balancer pool %s: want addresses that can be routed", pool)
	}
	return nil
}

// Disjoint returns ranges that cover what the given ones cover, none within another. Ranges
// overlap only if one contains the other.
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
