// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/mullion-k8s/mullion/internal/netpolicy"
)

// policyRules returns the transaction for nft(8) with the table that enforces
// NetworkPolicies on the pods of this host. The hook is that of forwarded packets: what
// the node itself sends to its pods, and they to it, always passes, as the API says.
// Packets arrive here with the addresses of pods, because kube-proxy has already chosen
// a Service's backend and has not rewritten the source yet. Connections that passed
// once go on, as on Windows.
//
// With isolate, the pods of the ranges that no endpoint has yet reach nothing: they are
// too new for their policies to be known.
func policyRules(endpoints []netpolicy.Endpoint, ranges []netip.Prefix, isolate bool) string {
	var chains, known, in, out strings.Builder
	for i, e := range endpoints {
		for _, a := range e.Addresses {
			if !a.Is4() {
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
		policyChain(&chains, fmt.Sprintf("in-%d", i), "saddr", e.Ingress, e.Addresses)
		policyChain(&chains, fmt.Sprintf("out-%d", i), "daddr", e.Egress, e.Addresses)
	}
	var b strings.Builder
	b.WriteString(`add table ip mullion-policy
delete table ip mullion-policy
table ip mullion-policy {
`)
	b.WriteString(chains.String())
	fmt.Fprintf(&b, "\tset known { type ipv4_addr ;%s }\n", elements(&known))
	fmt.Fprintf(&b, "\tmap ingress { type ipv4_addr : verdict ;%s }\n", elements(&in))
	fmt.Fprintf(&b, "\tmap egress { type ipv4_addr : verdict ;%s }\n", elements(&out))
	b.WriteString("\tchain forward {\n\t\ttype filter hook forward priority filter ;\n" +
		"\t\tct state established,related accept\n")
	for _, p := range ranges {
		if isolate && p.Addr().Is4() {
			fmt.Fprintf(&b, "\t\tip saddr %s ip saddr != @known counter drop\n", p.Masked())
			fmt.Fprintf(&b, "\t\tip daddr %s ip daddr != @known counter drop\n", p.Masked())
		}
	}
	b.WriteString("\t\tip saddr vmap @egress\n\t\tip daddr vmap @ingress\n\t}\n}\n")
	return b.String()
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

// policyChain writes the chain of one direction of a pod: what it lets pass returns,
// because the other end's rules come after.
func policyChain(b *strings.Builder, name, peer string, d *netpolicy.Direction, own []netip.Addr) {
	if d == nil {
		return
	}
	fmt.Fprintf(b, "\tchain %s {\n", name)
	for _, a := range own {
		if a.Is4() { // a pod reaches itself through a Service
			fmt.Fprintf(b, "\t\tip %s %s return\n", peer, a)
		}
	}
	for _, r := range d.Allow {
		var from strings.Builder
		for _, p := range r.Peers {
			if p.Addr().Is4() {
				element(&from, p.String())
			}
		}
		match := ""
		switch {
		case from.Len() > 0:
			match = fmt.Sprintf("ip %s { %s } ", peer, &from)
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
