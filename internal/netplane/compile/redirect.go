// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// RedirectTable is the name of the nftables table in an endpoint's namespace.
const RedirectTable = "mullion-proxy"

// redirects returns the table that leads connections of an endpoint to proxies in its own namespace, as nft reads it,
// or "". It is in that namespace, because the proxy sees a connection from its own host: WFP rewrites it when the
// program connects, before the packet reaches the virtual switch. Only IPv4 is redirected, as on Windows
// (https://github.com/microsoft/hcnproxyctrl, "Current limitations", read 2026-11).
func redirects(e *intent.Endpoint) string {
	var out, in []string
	for _, r := range e.Redirects {
		rule, ok := redirectRule(r)
		switch {
		case !ok:
		case r.Match.Direction == intent.In:
			in = append(in, rule)
		default:
			out = append(out, rule)
		}
	}
	if len(out)+len(in) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "table ip %s {\n", RedirectTable)
	for _, c := range []struct {
		hook  string
		rules []string
	}{{"output", out}, {"prerouting", in}} {
		if len(c.rules) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\tchain %s {\n\t\ttype nat hook %s priority -100\n", c.hook, c.hook)
		for _, r := range c.rules {
			fmt.Fprintf(&b, "\t\t%s\n", r)
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// redirectRule returns false for a redirection that never matches.
func redirectRule(r intent.Redirect) (string, bool) {
	match := r.Match
	match.Protocols = slices.DeleteFunc(slices.Clone(match.Protocols), func(p uint8) bool { return p != intent.TCP })
	if r.Port == 0 || len(match.Protocols) == 0 && len(r.Match.Protocols) > 0 {
		return "", false
	}
	match.Protocols = []uint8{intent.TCP}
	rule, ok := aclMatch(match, ipv4())
	if !ok {
		return "", false
	}
	if except := ipv4().mergePrefixes(r.ExceptAddresses); len(except) > 0 {
		if except[0].Bits() == 0 {
			return "", false
		}
		rule += "ip daddr != { " + join(except) + " } "
	}
	if ports := joinPorts(r.ExceptPorts); ports != "" {
		rule += "th dport != { " + ports + " } "
	}
	if len(r.ExceptGroups) > 0 && match.Direction == intent.Out {
		var groups []string
		for _, g := range r.ExceptGroups {
			groups = append(groups, fmt.Sprint(g))
		}
		rule += "meta skgid != { " + strings.Join(groups, ", ") + " } "
	}
	return rule + fmt.Sprintf("redirect to :%d", r.Port), true
}
