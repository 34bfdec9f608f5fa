// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// aclChains returns the chains of an endpoint's ACLs of one direction, one for each
// tier that has any, the last tier first: callers begin with the last chain of the
// list. Endpoints with the same ACLs share chains: they are named after their
// rules. Allow returns to the caller, because the other side's ACLs are checked
// too; packets that match no rule of any tier are allowed, as Microsoft's clients
// assume when they add explicit catch-alls.
func aclChains(e *intent.Endpoint, direction intent.Direction, f family) []Chain {
	var acls []intent.ACL
	for _, a := range e.ACLs {
		if a.Direction == direction {
			acls = append(acls, a)
		}
	}
	slices.SortStableFunc(acls, func(a, b intent.ACL) int {
		return cmp.Or(a.Tier-b.Tier, int(a.Priority)-int(b.Priority))
	})
	var chains []Chain
	next := "return" // where a tier leaves a packet that it does not decide about
	for len(acls) > 0 {
		tier := acls[len(acls)-1].Tier
		first := slices.IndexFunc(acls, func(a intent.ACL) bool { return a.Tier == tier })
		var rules []string
		for _, a := range acls[first:] {
			if match, ok := aclMatch(a, f); ok {
				rules = append(rules, match+aclVerdict(a.Action, next))
			}
		}
		if next != "return" {
			rules = append(rules, next)
		}
		name := hashName("acl-"+strings.ToLower(string(direction))+f.suffix, rules)
		chains = append(chains, Chain{Name: name, Rules: rules})
		next, acls = "goto "+name, acls[:first]
	}
	return chains
}

// aclVerdict returns the right side of a rule. After a goto, too, return leads to
// who jumped to the first tier.
func aclVerdict(a intent.Action, next string) string {
	switch a {
	case intent.Block:
		return "counter drop"
	case intent.Pass:
		return next
	}
	return "return"
}

// aclMatch returns the left side of a rule; false if it can match no packet of the family.
func aclMatch(a intent.ACL, f family) (string, bool) {
	local, remote := "saddr", "daddr"
	localPort, remotePort := "sport", "dport"
	if a.Direction == intent.In {
		local, remote = remote, local
		localPort, remotePort = remotePort, localPort
	}
	var b strings.Builder
	for _, side := range []struct {
		field string
		list  []netip.Prefix
	}{{local, a.LocalAddresses}, {remote, a.RemoteAddresses}} {
		if len(side.list) == 0 {
			continue
		}
		prefixes := f.mergePrefixes(side.list)
		if len(prefixes) == 0 {
			return "", false
		}
		if prefixes[0].Bits() > 0 {
			fmt.Fprintf(&b, "%s %s { %s } ", f.word, side.field, join(prefixes))
		}
	}
	protocols := slices.Clone(a.Protocols)
	ports := len(a.LocalPorts)+len(a.RemotePorts) > 0
	if ports {
		if len(protocols) == 0 {
			protocols = []uint8{intent.TCP, intent.UDP, intent.SCTP}
		}
		protocols = slices.DeleteFunc(protocols, func(p uint8) bool { return !hasPorts(p) })
		if len(protocols) == 0 {
			return "", false
		}
	}
	if len(protocols) > 0 {
		slices.Sort(protocols)
		var names []string
		for _, p := range slices.Compact(protocols) {
			names = append(names, protocolName(p))
		}
		fmt.Fprintf(&b, "meta l4proto { %s } ", strings.Join(names, ", "))
	} else {
		b.WriteString("meta nfproto " + f.protocol + " ")
	}
	for _, side := range []struct {
		field string
		list  []intent.PortRange
	}{{localPort, a.LocalPorts}, {remotePort, a.RemotePorts}} {
		if len(side.list) > 0 {
			list := joinPorts(side.list)
			if list == "" {
				return "", false
			}
			fmt.Fprintf(&b, "th %s { %s } ", side.field, list)
		}
	}
	return b.String(), true
}

// mergePrefixes drops prefixes of the other family and prefixes inside another one:
// nft refuses overlapping entries.
func (f family) mergePrefixes(list []netip.Prefix) []netip.Prefix {
	var own []netip.Prefix
	for _, p := range list {
		if p.IsValid() && f.has(p.Addr()) {
			own = append(own, p.Masked())
		}
	}
	slices.SortFunc(own, func(a, b netip.Prefix) int {
		return cmp.Or(a.Bits()-b.Bits(), a.Addr().Compare(b.Addr()))
	})
	var merged []netip.Prefix
	for _, p := range own {
		if !slices.ContainsFunc(merged, func(m netip.Prefix) bool { return m.Contains(p.Addr()) }) {
			merged = append(merged, p)
		}
	}
	return merged
}

func join[T fmt.Stringer](list []T) string {
	names := make([]string, len(list))
	for i, v := range list {
		names[i] = v.String()
	}
	return strings.Join(names, ", ")
}

// joinPorts merges the ranges, because nft refuses overlapping entries.
func joinPorts(list []intent.PortRange) string {
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b intent.PortRange) int { return int(a.First) - int(b.First) })
	var merged []intent.PortRange
	for _, r := range sorted {
		if r.Last < r.First {
			continue
		}
		if n := len(merged); n > 0 && int(r.First) <= int(merged[n-1].Last)+1 {
			merged[n-1].Last = max(merged[n-1].Last, r.Last)
			continue
		}
		merged = append(merged, r)
	}
	var names []string
	for _, r := range merged {
		if r.First == r.Last {
			names = append(names, fmt.Sprint(r.First))
		} else {
			names = append(names, fmt.Sprintf("%d-%d", r.First, r.Last))
		}
	}
	return strings.Join(names, ", ")
}

// hashName names a chain after its rules.
func hashName(kind string, rules []string) string {
	sum := sha256.Sum256([]byte(strings.Join(rules, "\n")))
	return kind + "-" + hex.EncodeToString(sum[:6])
}
