// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// Names of the set and the map of preserved front ends.
const (
	setPreserved = "preserved"         // endpoint . front end . protocol . port of the endpoint
	mapPreserved = "preserved-replies" // link . front end . protocol . port of the endpoint → the endpoint
)

// preserved is the address of a front end that a backend sees as the destination, for a port of the backend.
// kube-proxy requests it with the annotation preserve-destination: "DNAT is skipped and loadbalanced packets are
// delivered with VIP/ClusterIP as the destination IP" (https://github.com/kubernetes/kubernetes/pull/74825).
//
// The host translates such a connection as any other, so that connection tracking keeps it at its backend, ACLs see
// the endpoint's address, and a change of backends ends it. The last rule before the endpoint's link writes the
// front end's address back, and the first one behind that link takes it off the replies.
type preserved struct {
	vip      netip.Addr
	protocol uint8
	port     uint16
}

func (p preserved) compare(q preserved) int {
	return cmp.Or(p.vip.Compare(q.vip), cmp.Compare(p.protocol, q.protocol), cmp.Compare(p.port, q.port))
}

// preserve lists for each backend the front ends that it sees, each once.
func (c *compiler) preserve() {
	for i := range c.want.LoadBalancers {
		lb := &c.want.LoadBalancers[i]
		if !lb.PreserveDIP {
			continue
		}
		fam := familyFor(lb.IPv6)
		for _, b := range lb.Backends {
			for _, vip := range lb.VIPs {
				if !fam.has(b.Address) || !fam.has(vip) || !slices.Contains(c.families, fam) {
					continue
				}
				p := preserved{vip, lb.Protocol, lb.InternalPort}
				list := c.preserved[b.Address]
				if i, found := slices.BinarySearchFunc(list, p, preserved.compare); !found {
					c.preserved[b.Address] = slices.Insert(list, i, p)
				}
			}
		}
	}
}

// preservedFor lists the addresses that an endpoint sees. Backends that are not endpoints of this host see
// their own address.
func (c *compiler) preservedFor(e *intent.Endpoint) map[netip.Addr][]preserved {
	var all map[netip.Addr][]preserved
	for _, a := range c.addresses(e) {
		if list := c.preserved[a.Addr()]; len(list) > 0 {
			if all == nil {
				all = map[netip.Addr][]preserved{}
			}
			all[a.Addr()] = list
		}
	}
	return all
}

// accept lets an endpoint's namespace take packets to the front ends as its own.
func (l *Link) accept(all map[netip.Addr][]preserved) {
	for _, list := range all {
		for _, p := range list {
			l.Peer.Accepts = addSorted(l.Peer.Accepts, p.vip)
		}
	}
	for _, a := range l.Peer.Accepts {
		l.Neighbours = append(l.Neighbours, Neighbour{a, l.Peer.MAC})
	}
}

// preservedElements makes the elements for an address of an endpoint.
func preservedElements(f family, link string, address netip.Addr, list []preserved) []Element {
	elements := make([]Element, 0, 2*len(list))
	for _, p := range list {
		key := p.vip.String() + " . " + protocolName(p.protocol) + " . " + strconv.Itoa(int(p.port))
		elements = append(elements,
			Element{f.set(setPreserved), address.String() + " . " + key, ""},
			Element{f.set(mapPreserved), strconv.Quote(link) + " . " + key, address.String()})
	}
	return elements
}

// preservedSets lists the sets of a family. A host without such a front end has neither them nor the rules, which each
// packet would pass.
func preservedSets(f family) []Set {
	service := f.address + " . inet_proto . inet_service"
	return []Set{
		{Name: f.set(setPreserved), Type: f.address + " . " + service},
		{Name: f.set(mapPreserved), Type: "ifname . " + service, Value: f.address},
	}
}

// preserveChains adds the rules. They write addresses without connection tracking, and adjust the checksums: the
// one comes after the translation of addresses, the other before it (nft(8), PAYLOAD STATEMENT).
func (c *compiler) preserveChains(chains []Chain) []Chain {
	if len(c.preserved) == 0 {
		return chains
	}
	for i := range chains {
		if chains[i].Name == "from-endpoint" {
			chains[i].Rules = append(c.each(func(f family) []string {
				return []string{f.word + " saddr set iifname . " + f.word + " saddr . meta l4proto . th sport map @" +
					f.set(mapPreserved)}
			}), chains[i].Rules...)
		}
	}
	return append(chains, Chain{
		Name: "preserve-destination", Type: "filter", Hook: "postrouting", Priority: "200",
		Rules: c.each(func(f family) []string {
			front := "ct original " + f.word + " daddr"
			return []string{"oifname " + ours + " ct direction original " + f.word + " daddr . " + front +
				" . meta l4proto . th dport @" + f.set(setPreserved) + " " + f.word + " daddr set " + front}
		}),
	})
}
