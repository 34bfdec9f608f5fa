// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// GoneAddresses returns the addresses of endpoints that were on the host in old and
// are not in p.
func (p *Plan) GoneAddresses(old *Plan) map[netip.Addr]bool {
	gone := map[netip.Addr]bool{}
	for _, l := range old.Links {
		if l.Peer != nil {
			for _, a := range l.Peer.Addresses {
				gone[a.Addr()] = true
			}
		}
	}
	for _, l := range p.Links {
		if l.Peer != nil {
			for _, a := range l.Peer.Addresses {
				delete(gone, a.Addr())
			}
		}
	}
	return gone
}

// ChangedDatagramFronts returns the UDP front ends that are new, gone or different
// since old, each with the backends it has now. If all, every front end counts
// as changed.
func (p *Plan) ChangedDatagramFronts(old *Plan, all bool) map[netip.AddrPort]map[netip.AddrPort]bool {
	changed := map[netip.AddrPort]map[netip.AddrPort]bool{}
	for name, f := range old.Table.fragments {
		if p.Table.fragments[name] == f {
			continue
		}
		if lb, ok := f.source.(*intent.LoadBalancer); ok && lb.Protocol == intent.UDP {
			for _, a := range old.fronts(lb) {
				changed[a] = nil
			}
		}
	}
	for name, f := range p.Table.fragments {
		if !all && old.Table.fragments[name] == f {
			continue
		}
		lb, ok := f.source.(*intent.LoadBalancer)
		if !ok || lb.Protocol != intent.UDP {
			continue
		}
		to := map[netip.AddrPort]bool{}
		for _, b := range lb.Backends {
			to[netip.AddrPortFrom(b.Address, lb.InternalPort)] = true
		}
		for _, a := range p.fronts(lb) {
			changed[a] = to
		}
	}
	return changed
}

// fronts returns the addresses under which clients reach a load balancer.
func (p *Plan) fronts(lb *intent.LoadBalancer) []netip.AddrPort {
	vips := lb.VIPs
	if len(vips) == 0 {
		vips = append(vips, familyFor(lb.IPv6).node(p.uplink))
		for _, l := range p.Links {
			for _, a := range l.Addresses {
				vips = append(vips, a.Addr())
			}
		}
	}
	var list []netip.AddrPort
	for _, v := range vips {
		if familyFor(lb.IPv6).has(v) {
			list = append(list, netip.AddrPortFrom(v, lb.ExternalPort))
		}
	}
	return list
}
