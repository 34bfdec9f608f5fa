// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/agent/netpolicy"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
)

// aclPrefix begins the Id of each ACL that the agent writes. Azure's policy manager
// recognizes its own by their Id, too (github.com/Azure/azure-container-networking
// npm/pkg/dataplane/policies, "azure-acl-").
const aclPrefix = "mullion-"

// Priorities: HNS takes the rule with the lowest number that matches, and has its own
// tie-break among rules with the same number, so Allow and Block never share one.
const (
	nodePriority  = 100
	allowPriority = 200
	blockPriority = 3000
)

// aclAddresses bounds the addresses of one ACL: HNS takes about 4,000
// (github.com/projectcalico/calico felix/dataplane/windows/policysets).
const aclAddresses = 2000

// anyProtocol is HNS's number for every protocol.
const anyProtocol = "256"

// describeACLs returns the ACLs of a pod's endpoint. A direction that no policy isolates has no
// ACLs: HNS lets everything pass then. The node, by any of its addresses, and the pod itself
// always have access to the pod and vice versa: probes come from the node, and the API
// documents it (https://kubernetes.io/docs/concepts/services-networking/network-policies/).
// There is no rule for SCTP, which Windows does not have.
func describeACLs(e netpolicy.Endpoint, node []netip.Addr) []schema.ACLSetting {
	var out []schema.ACLSetting
	for _, d := range []struct {
		name  string
		rules *netpolicy.Direction
	}{{"In", e.Ingress}, {"Out", e.Egress}} {
		if d.rules == nil {
			continue
		}
		var always []netip.Prefix
		for _, a := range append(slices.Clone(node), e.Addresses...) {
			always = append(always, netip.PrefixFrom(a, a.BitLen()))
		}
		out = append(out, newACL(d.name, "Allow", nodePriority, anyProtocol, joinAll(always), ""))
		for _, r := range d.rules.Allow {
			out = append(out, allowACLs(d.name, r, e.Addresses)...)
		}
		out = append(out, newACL(d.name, "Block", blockPriority, anyProtocol, "", ""))
	}
	return out
}

// allowACLs writes one rule as one ACL for each protocol and each part of a long list.
func allowACLs(direction string, r netpolicy.Rule, own []netip.Addr) []schema.ACLSetting {
	type match struct{ protocol, ports string }
	var matches []match
	if len(r.Ports) == 0 {
		matches = []match{{anyProtocol, ""}}
	}
	for _, p := range []struct {
		name   netpolicy.Protocol
		number string
	}{{netpolicy.TCP, "6"}, {netpolicy.UDP, "17"}} {
		var ranges []string
		all := false
		for _, x := range r.Ports {
			if x.Protocol != p.name {
				continue
			}
			all = all || x.First == 0 && x.Last == 65535
			text := fmt.Sprint(x.First)
			if x.Last != x.First {
				text = fmt.Sprintf("%d-%d", x.First, x.Last)
			}
			ranges = append(ranges, text)
		}
		if all {
			matches = append(matches, match{p.number, ""})
		} else if len(ranges) > 0 {
			matches = append(matches, match{p.number, strings.Join(ranges, ",")})
		}
	}
	// An endpoint without an address of a family refuses rules of it.
	peers := slices.DeleteFunc(slices.Clone(r.Peers), func(p netip.Prefix) bool {
		return !slices.ContainsFunc(own, func(a netip.Addr) bool { return a.Is4() == p.Addr().Is4() })
	})
	lists := []string{""} // everyone
	if len(r.Peers) > 0 {
		lists = nil
		for part := range slices.Chunk(peers, aclAddresses) {
			lists = append(lists, joinAll(part))
		}
	}
	var out []schema.ACLSetting
	for _, m := range matches {
		for _, peers := range lists {
			out = append(out, newACL(direction, "Allow", allowPriority, m.protocol, peers, m.ports))
		}
	}
	return out
}

func joinAll(prefixes []netip.Prefix) string {
	words := make([]string, len(prefixes))
	for i, p := range prefixes {
		words[i] = p.String()
	}
	return strings.Join(words, ",")
}

// newACL returns an ACL whose Id is derived from its content: equal rules have equal Ids.
// The ports are the pod's own for incoming packets, else its peer's.
func newACL(direction, action string, priority uint16, protocol, peers, ports string) schema.ACLSetting {
	s := schema.ACLSetting{Protocols: protocol, Action: action, Direction: direction, RemoteAddresses: peers,
		RuleType: "Switch", Priority: priority}
	if direction == "In" {
		s.LocalPorts = ports
	} else {
		s.RemotePorts = ports
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v", s))
	s.ID = aclPrefix + hex.EncodeToString(sum[:8])
	return s
}

// isolated returns the ACLs of a pod that only its node can reach, before its policies
// are known.
func isolated(node []netip.Addr) []schema.ACLSetting {
	return describeACLs(netpolicy.Endpoint{Ingress: &netpolicy.Direction{}, Egress: &netpolicy.Direction{}}, node)
}

// diffACLs compares an endpoint's policies with the wanted ACLs. It considers ACLs with
// our Id only; all others, and policies of other types, stay as they are.
func diffACLs(have []schema.Policy, want []schema.ACLSetting) (add, remove []schema.Policy, err error) {
	missing := map[string]bool{}
	for _, w := range want {
		missing[w.ID] = true
	}
	for _, p := range have {
		if !strings.EqualFold(p.Type, schema.ACLPolicy) {
			continue
		}
		var s schema.ACLSetting
		if err := json.Unmarshal(p.Settings, &s); err != nil {
			return nil, nil, fmt.Errorf("read ACL %.200s: %w", p.Settings, err)
		}
		if !strings.HasPrefix(s.ID, aclPrefix) {
			continue
		}
		if missing[s.ID] {
			missing[s.ID] = false
			continue
		}
		remove = append(remove, p)
	}
	for _, w := range want {
		if !missing[w.ID] {
			continue
		}
		missing[w.ID] = false
		p, err := aclPolicy(w)
		if err != nil {
			return nil, nil, err
		}
		add = append(add, p)
	}
	return add, remove, nil
}

func aclPolicy(s schema.ACLSetting) (schema.Policy, error) {
	settings, err := json.Marshal(s)
	if err != nil {
		return schema.Policy{}, err
	}
	return schema.Policy{Type: schema.ACLPolicy, Settings: settings}, nil
}
