// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netpolicy_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/mullion-k8s/mullion/internal/agent/netpolicy"
	"github.com/mullion-k8s/mullion/internal/agent/netpolicy/policytest"
)

func TestUpstreamTruthTables(t *testing.T) {
	places := map[string]policytest.Place{}
	for i, name := range policytest.Pods() {
		places[name] = policytest.Place{Node: "n", Address: netip.AddrFrom4([4]byte{10, 244, 1, byte(10 + i)})}
	}
	for _, tt := range policytest.Tables() {
		t.Run(tt.Name, func(t *testing.T) {
			c := tt.Cluster(t, places)
			pod := func(name string) *netpolicy.Pod {
				return &c.Pods[slices.IndexFunc(c.Pods, func(p netpolicy.Pod) bool {
					return fmt.Sprintf("%s/%s", p.Namespace, p.Name) == name
				})]
			}
			endpoints := netpolicy.Compile(c, "n")
			for _, cell := range tt.Cells(t) {
				got := passes(endpoints, pod(cell.From), pod(cell.To), cell.Protocol, cell.Port)
				if got != cell.Passes {
					t.Errorf("%s → %s: %v, want %v", cell.From, cell.To, got, cell.Passes)
				}
			}
		})
	}
}

// passes reports whether a connection passes both ends.
func passes(endpoints []netpolicy.Endpoint, from, to *netpolicy.Pod, protocol netpolicy.Protocol, port uint16) bool {
	find := func(p *netpolicy.Pod) *netpolicy.Endpoint {
		i := slices.IndexFunc(endpoints,
			func(e netpolicy.Endpoint) bool { return e.Namespace == p.Namespace && e.Name == p.Name })
		if i < 0 {
			return &netpolicy.Endpoint{}
		}
		return &endpoints[i]
	}
	return lets(find(from).Egress, to.Addresses[0], protocol, port) &&
		lets(find(to).Ingress, from.Addresses[0], protocol, port)
}

func lets(d *netpolicy.Direction, peer netip.Addr, protocol netpolicy.Protocol, port uint16) bool {
	return d == nil || slices.ContainsFunc(d.Allow, func(r netpolicy.Rule) bool {
		return (len(r.Peers) == 0 ||
			slices.ContainsFunc(r.Peers, func(p netip.Prefix) bool { return p.Contains(peer) })) &&
			(len(r.Ports) == 0 || slices.ContainsFunc(r.Ports, func(p netpolicy.Ports) bool {
				return p.Protocol == protocol && p.First <= port && port <= p.Last
			}))
	})
}
