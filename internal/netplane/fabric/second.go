// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Second has the ranges of the second address family, IPv6. The zero value means that there is none.
//
// The machine reaches hosts, pods and the pool in both families. It serves nothing in IPv6, and leads no further.
type Second struct {
	NodeNet, PodNet, ServiceNet netip.Prefix
	// Pool has the addresses for Services of type LoadBalancer. The zero value means that there are none.
	Pool netip.Prefix
}

// check refuses ranges that cannot work together.
func (s Second) check() error {
	if s == (Second{}) {
		return nil
	}
	ranges := []netip.Prefix{s.NodeNet, s.PodNet, s.ServiceNet}
	for i, r := range ranges {
		if !r.Addr().Is6() || r.Addr().Is4In6() || !r.Addr().IsPrivate() || r != r.Masked() || r.Bits() > 112 {
			return fmt.Errorf("range %s: not a unique local IPv6 range (RFC 4193) of 65536 addresses or more", r)
		}
		for _, other := range ranges[:i] {
			if r.Overlaps(other) {
				return fmt.Errorf("ranges %s and %s overlap", other, r)
			}
		}
	}
	if !s.Pool.IsValid() {
		return nil
	}
	if s.Pool.Addr().Is4() {
		return fmt.Errorf("load balancer pool %s: not an IPv6 range", s.Pool)
	}
	return CheckPool(s.Pool, ranges...)
}

// router returns the hosts' default gateway, the first address of their range, or the zero value.
func (s Second) router() netip.Prefix {
	if s == (Second{}) {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(s.NodeNet.Addr().Next(), s.NodeNet.Bits())
}

// machine returns the machine's address, the second of the hosts' range, or the zero value.
func (s Second) machine() netip.Prefix {
	if s == (Second{}) {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(s.NodeNet.Addr().Next().Next(), s.NodeNet.Bits())
}

// routed lists what the machine reaches by way of the router.
func (s Second) routed() []netip.Prefix {
	if s.Pool.IsValid() {
		return []netip.Prefix{s.PodNet, s.Pool}
	}
	return []netip.Prefix{s.PodNet}
}

// secondLines returns the second family's parts of the plan's text: the router's and the machine's.
func (p *Plan) secondLines() (router, machine string) {
	if !p.Router6.IsValid() {
		return "", ""
	}
	router = fmt.Sprintf("\n  second family %s, unreachable everything but what a node owns", p.Router6)
	machine = fmt.Sprintf("\n  second family %s", p.MachineAddress6)
	for _, r := range p.Second.routed() {
		machine += fmt.Sprintf("\n  route %s via %s", r, p.Router6.Addr())
	}
	return router, machine
}

// secondRules returns the transaction for nft(8) that makes the machine's table of the second family. It is as closed
// as that of IPv4: the machine serves nothing in IPv6, and the family ends here.
func (p *Plan) secondRules() string {
	var b strings.Builder
	add := func(chain, rule string) { fmt.Fprintf(&b, "add rule ip6 %s %s %s\n", p.Table, chain, rule) }
	// `add` first: deleting a table that does not exist is an error.
	fmt.Fprintf(&b, "add table ip6 %[1]s\ndelete table ip6 %[1]s\nadd table ip6 %[1]s\n", p.Table)
	for _, hook := range []string{"input", "forward"} {
		fmt.Fprintf(&b, "add chain ip6 %s %s { type filter hook %[2]s priority 0 ; }\n", p.Table, hook)
		add(hook, fmt.Sprintf("iifname != %q accept", p.MachineLink))
		add(hook, "ct state established,related accept")
	}
	// What ARP is for IPv4. A router does not pass it on with its hop limit (RFC 4861, section 11.2).
	add("input", "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept")
	add("input", "counter reject with icmpv6 type admin-prohibited")
	add("forward", "counter reject with icmpv6 type admin-prohibited")
	return b.String()
}

// checkHost refuses what is not a host's address in the second family.
func (p *Plan) checkHost(a netip.Prefix) error {
	switch {
	case !p.Router6.IsValid() && a.IsValid():
		return fmt.Errorf("address %s: the fabric has no IPv6", a)
	case !p.Router6.IsValid():
		return nil
	case !a.IsValid():
		return errors.New("no IPv6 address, which the fabric has")
	case a.Masked() != p.Second.NodeNet || a.Addr() == p.Router6.Addr() || a.Addr() == p.MachineAddress6.Addr() ||
		a.Addr() == p.Second.NodeNet.Addr():
		return fmt.Errorf("address %s: not a host's address in %s", a, p.Second.NodeNet)
	}
	return nil
}
