// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
)

// checkIPv6 refuses ranges that cannot work together. The machine reaches hosts, pods and the pool in both families. It
// serves no port in IPv6, and forwards no packet further.
func checkIPv6(plan ipv6.Plan, pool netip.Prefix) error {
	var ranges []netip.Prefix
	for _, n := range plan.Networks() {
		r := n.CIDR
		if !ipv6.Is(r.Addr()) || !r.Addr().IsPrivate() || r != r.Masked() || r.Bits() > 112 {
			return fmt.Errorf("range %s: not a unique local IPv6 range (RFC 4193) of 65536 addresses or more", r)
		}
		ranges = append(ranges, r)
	}
	switch {
	case !pool.IsValid():
		return disjoint(ranges)
	case plan.IsZero():
		return fmt.Errorf("load balancer pool %s: the fabric has no IPv6", pool)
	case pool.Addr().Is4():
		return fmt.Errorf("load balancer pool %s: not an IPv6 range", pool)
	}
	return errors.Join(disjoint(ranges), CheckPool(pool, ranges...))
}

// addresses6 returns the hosts' default gateway, the first address of their IPv6 range, and the machine's address, the
// second one. Without a range they are absent.
func addresses6(nodes netip.Prefix) (router, machine netip.Prefix) {
	if !nodes.IsValid() {
		return router, machine
	}
	first := nodes.Addr().Next()
	return netip.PrefixFrom(first, nodes.Bits()), netip.PrefixFrom(first.Next(), nodes.Bits())
}

// routed6 lists the IPv6 ranges that the machine reaches through the router.
func (p *Plan) routed6() []netip.Prefix { return ipv6.List(p.IPv6.PodCIDR, p.Pool6) }

// ipv6Lines returns the IPv6 parts of the plan's text: the router's and the machine's.
func (p *Plan) ipv6Lines() (router, machine string) {
	if !p.Router6.IsValid() {
		return "", ""
	}
	router = fmt.Sprintf("\n  IPv6 %s, unreachable everything but what a node owns", p.Router6)
	machine = fmt.Sprintf("\n  IPv6 %s", p.MachineAddress6)
	for _, r := range p.routed6() {
		machine += fmt.Sprintf("\n  route %s via %s", r, p.Router6.Addr())
	}
	return router, machine
}

// ipv6Rules returns the transaction for nft(8) that makes the machine's IPv6 table. It is as closed
// as the IPv4 table: the machine serves no port in IPv6, and the family ends here.
func (p *Plan) ipv6Rules() string {
	var b strings.Builder
	add := func(chain, rule string) { fmt.Fprintf(&b, "add rule ip6 %s %s %s\n", p.Table, chain, rule) }
	// `add` first: deleting a table that does not exist is an error.
	fmt.Fprintf(&b, "add table ip6 %[1]s\ndelete table ip6 %[1]s\nadd table ip6 %[1]s\n", p.Table)
	for _, hook := range []string{"input", "forward"} {
		fmt.Fprintf(&b, "add chain ip6 %s %s { type filter hook %[2]s priority 0 ; }\n", p.Table, hook)
		add(hook, fmt.Sprintf("iifname != %q accept", p.MachineLink))
		add(hook, "ct state established,related accept")
	}
	// The counterpart of ARP in IPv4. A router does not pass it on with its hop limit (RFC 4861,
	// section 11.2).
	add("input", "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept")
	add("input", "counter reject with icmpv6 type admin-prohibited")
	add("forward", "counter reject with icmpv6 type admin-prohibited")
	return b.String()
}

// checkHost returns an error unless a is a host's IPv6 address.
func (p *Plan) checkHost(a netip.Prefix) error {
	switch {
	case !p.Router6.IsValid() && a.IsValid():
		return fmt.Errorf("address %s: the fabric has no IPv6", a)
	case !p.Router6.IsValid():
		return nil
	case !a.IsValid():
		return errors.New("no IPv6 address, which the fabric has")
	case a.Masked() != p.IPv6.NodeCIDR || !IsHost(p.IPv6.NodeCIDR, a.Addr()):
		return fmt.Errorf("address %s: not a host's address in %s", a, p.IPv6.NodeCIDR)
	}
	return nil
}
