// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/mullion-k8s/mullion/internal/netplane/compile"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// forget deletes conntrack entries that lead to dead destinations. A TCP client
// notices and connects again; a UDP client that keeps its port, as DNS resolvers
// do, would be sent to the old backend for as long as it keeps trying. And an
// address that an endpoint gave back must not inherit the connections of its former
// owner.
func (p *Plane) forget(ctx context.Context, old, plan *compile.Plan, trusted bool) error {
	f := flowFilter{
		gone:  plan.GoneAddresses(old),
		front: plan.ChangedDatagramFronts(old, !trusted),
	}
	if len(f.gone) == 0 && len(f.front) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	families := []netlink.InetFamily{netlink.FAMILY_V4}
	if old.HasIPv6() || plan.HasIPv6() {
		families = append(families, netlink.FAMILY_V6)
	}
	for _, family := range families {
		if _, err := p.space.Netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, f); err != nil {
			return fmt.Errorf("delete conntrack entries: %w", err)
		}
	}
	return nil
}

// flowFilter selects the flows to delete.
type flowFilter struct {
	gone  map[netip.Addr]bool
	front map[netip.AddrPort]map[netip.AddrPort]bool // UDP front end → its backends
}

// MatchConntrackFlow is part of netlink.CustomConntrackFilter.
func (f flowFilter) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	source, _ := netip.AddrFromSlice(flow.Forward.SrcIP)
	replier, _ := netip.AddrFromSlice(flow.Reverse.SrcIP)
	source, replier = source.Unmap(), replier.Unmap()
	if f.gone[source] || f.gone[replier] {
		return true
	}
	if flow.Forward.Protocol != intent.UDP {
		return false
	}
	target, _ := netip.AddrFromSlice(flow.Forward.DstIP)
	backends, ok := f.front[netip.AddrPortFrom(target.Unmap(), flow.Forward.DstPort)]
	return ok && !backends[netip.AddrPortFrom(replier, flow.Reverse.SrcPort)]
}
