// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/agent/netpolicy"
)

// policyRules returns the transaction for nft(8) with the table that enforces
// NetworkPolicies on the pods of this host. The hook is for forwarded packets: traffic
// between the node itself and its pods always passes, as the API requires. Packets
// arrive here with the addresses of pods, because kube-proxy has already chosen a
// Service's backend and has not rewritten the source yet. Connections that passed once
// go on, as on Windows.
//
// With isolate, the pods of the ranges that no endpoint has yet have no network access:
// they are too new for their policies to be known.
//
// There is a table for each address family of the ranges.
func policyRules(endpoints []netpolicy.Endpoint, ranges []netip.Prefix, isolate bool) string {
	var b strings.Builder
	for _, f := range []family{inet4, inet6} {
		if slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return f.has(p.Addr()) }) {
			b.WriteString(f.policyTable(endpoints, ranges, isolate))
		}
	}
	return b.String()
}

// family is an address family, by nft's name for it.
type family string

const (
	inet4 family = "ip"
	inet6 family = "ip6"
)

// has reports whether an address is of the family.
func (f family) has(a netip.Addr) bool { return a.Is4() == (f == inet4) }

// policyTable returns the table of one family.
func (f family) policyTable(endpoints []netpolicy.Endpoint, ranges []netip.Prefix, isolate bool) string {
	var chains, known, in, out strings.Builder
	for i, e := range endpoints {
		for _, a := range e.Addresses {
			if !f.has(a) {
				continue
			}
			element(&known, a.String())
			if e.Ingress != nil {
				element(&in, fmt.Sprintf("%s : jump in-%d", a, i))
			}
			if e.Egress != nil {
				element(&out, fmt.Sprintf("%s : jump out-%d", a, i))
			}
		}
		f.policyChain(&chains, fmt.Sprintf("in-%d", i), "saddr", e.Ingress, e.Addresses)
		f.policyChain(&chains, fmt.Sprintf("out-%d", i), "daddr", e.Egress, e.Addresses)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `add table %[1]s mullion-policy
delete table %[1]s mullion-policy
table %[1]s mullion-policy {
`, f)
	b.WriteString(chains.String())
	fmt.Fprintf(&b, "\tset known { type %s ;%s }\n", f.address(), elements(&known))
	fmt.Fprintf(&b, "\tmap ingress { type %s : verdict ;%s }\n", f.address(), elements(&in))
	fmt.Fprintf(&b, "\tmap egress { type %s : verdict ;%s }\n", f.address(), elements(&out))
	b.WriteString("\tchain forward {\n\t\ttype filter hook forward priority filter ;\n" +
		"\t\tct state established,related accept\n")
	for _, p := range ranges {
		if isolate && f.has(p.Addr()) {
			fmt.Fprintf(&b, "\t\t%[1]s saddr %[2]s %[1]s saddr != @known counter drop\n", f, p.Masked())
			fmt.Fprintf(&b, "\t\t%[1]s daddr %[2]s %[1]s daddr != @known counter drop\n", f, p.Masked())
		}
	}
	fmt.Fprintf(&b, "\t\t%[1]s saddr vmap @egress\n\t\t%[1]s daddr vmap @ingress\n\t}\n}\n", f)
	return b.String()
}

// address names the type of the family's addresses.
func (f family) address() string {
	if f == inet4 {
		return "ipv4_addr"
	}
	return "ipv6_addr"
}

func element(list *strings.Builder, text string) {
	if list.Len() > 0 {
		list.WriteString(", ")
	}
	list.WriteString(text)
}

func elements(list *strings.Builder) string {
	if list.Len() == 0 {
		return ""
	}
	return " elements = { " + list.String() + " } ;"
}

// policyChain writes the chain of one direction of a pod: packets that it lets pass
// return, because the other end's rules come after.
func (f family) policyChain(b *strings.Builder, name, peer string, d *netpolicy.Direction, own []netip.Addr) {
	if d == nil {
		return
	}
	fmt.Fprintf(b, "\tchain %s {\n", name)
	for _, a := range own {
		if f.has(a) { // a pod reaches itself through a Service
			fmt.Fprintf(b, "\t\t%s %s %s return\n", f, peer, a)
		}
	}
	for _, r := range d.Allow {
		var from strings.Builder
		for _, p := range r.Peers {
			if f.has(p.Addr()) {
				element(&from, p.String())
			}
		}
		match := ""
		switch {
		case from.Len() > 0:
			match = fmt.Sprintf("%s %s { %s } ", f, peer, &from)
		case len(r.Peers) > 0:
			continue // all of them have addresses of the other family
		}
		if len(r.Ports) == 0 {
			fmt.Fprintf(b, "\t\t%sreturn\n", match)
		}
		for _, protocol := range []netpolicy.Protocol{netpolicy.TCP, netpolicy.UDP, netpolicy.SCTP} {
			var ports strings.Builder
			for _, p := range r.Ports {
				if p.Protocol == protocol {
					element(&ports, fmt.Sprintf("%d-%d", p.First, p.Last))
				}
			}
			if ports.Len() > 0 {
				fmt.Fprintf(b, "\t\t%s%s dport { %s } return\n", match, strings.ToLower(string(protocol)), &ports)
			}
		}
	}
	b.WriteString("\t\tcounter drop\n\t}\n")
}
