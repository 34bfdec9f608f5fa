// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric

import (
	"fmt"
	"net/netip"
)

// balanceFamily has the words of nft(8) for an address family. A set has keys of one type, so each family has its own.
type balanceFamily struct {
	suffix   string // of the names of sets, maps and chains
	ip       string // expression of the header
	address  string // type
	protocol string // expression
	// prepare goes before the rules that use ends, if any.
	prepare []string
	// ends identifies a pair of a client and an address of the pool, in the keys of remembered
	// connections.
	ends string
	// datagram and ends are the same for all fragments of a datagram (RFC 791, section 3.2, and RFC 8200, section 4.5).
	datagram                     string
	moreFragments, laterFragment string // match a fragment that others follow, and one that is not the first
}

// familyOf returns the family of an address.
//
// nft 1.0.6 adds no keys of more than 16 bytes to a map (netlink_linearize.c, netlink_gen_map_stmt: one register). So
// with IPv6 a client is known by a hash of its address, beside both ports and the last 16 bits of the pool's address,
// which are all that differ in a pool (CheckPool). Two clients with one hash and one port share a node.
func familyOf(a netip.Addr) balanceFamily {
	if a.Is4() {
		return balanceFamily{ip: "ip", address: "ipv4_addr", protocol: "ip protocol", ends: "ip saddr . ip daddr",
			datagram:      "ip protocol . ip id",
			moreFragments: "ip frag-off & 0x2000 != 0", laterFragment: "ip frag-off & 0x1fff != 0"}
	}
	return balanceFamily{suffix: "6", ip: "ip6", address: "ipv6_addr",
		// The header's own field names the first extension header, if there is one.
		protocol: "meta l4proto",
		prepare:  []string{"meta mark set jhash ip6 saddr mod 4294967295 seed " + balanceSeed},
		ends:     "meta mark . @nh,304,16",
		// The identification: bytes 4 to 7 of the header behind IPv6's own. nft takes no "frag id" here.
		datagram:      "@nh,352,32",
		moreFragments: "frag more-fragments 1", laterFragment: "frag frag-off != 0"}
}

func (a balanceFamily) named(name string) string { return name + a.suffix }

// flowKey identifies a connection of a protocol.
func (a balanceFamily) flowKey(protocol string) string {
	return fmt.Sprintf("%[1]s . %[2]s sport . %[2]s dport", a.ends, protocol)
}

// drawKey decides which node a connection draws.
func (a balanceFamily) drawKey(protocol string) string {
	return fmt.Sprintf("%[1]s saddr . %[1]s daddr . %[2]s sport . %[2]s dport", a.ip, protocol)
}

func (a balanceFamily) datagramKey() string { return a.ends + " . " + a.datagram }

// frontKey identifies a front end.
func (a balanceFamily) frontKey() string { return a.ip + " daddr . " + a.protocol + " . th dport" }

func (a balanceFamily) frontType() string { return a.address + " . inet_proto . inet_service" }
