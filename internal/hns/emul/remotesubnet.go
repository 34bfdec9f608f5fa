// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// remoteSubnets returns the RemoteSubnetRoute policies of a network. They were checked when they were stored.
func remoteSubnets(n *network) (list []intent.RemoteSubnet) {
	for _, v := range settings[schema.RemoteSubnetRouteSetting](n.Policies, schema.RemoteSubnetRoutePolicy) {
		if r, err := parseRemoteSubnet(v); err == nil {
			list = append(list, r)
		}
	}
	return list
}

func parseRemoteSubnet(v schema.RemoteSubnetRouteSetting) (intent.RemoteSubnet, error) {
	p, err := parsePrefix(v.DestinationPrefix)
	if err != nil {
		return intent.RemoteSubnet{}, err
	}
	a, err := netip.ParseAddr(v.ProviderAddress)
	if err != nil {
		return intent.RemoteSubnet{}, err
	}
	mac, err := canonicalMAC(v.DistributedRouterMacAddress)
	return intent.RemoteSubnet{Prefix: p, VSID: v.IsolationID, ProviderAddress: a.Unmap(), DRMAC: mac}, err
}

// checkRemoteSubnets refuses routes that the data plane cannot have, or must not: flanneld copies them from the
// annotations of other nodes. Which of them HNS refuses, and how, is not documented.
func (s *Service) checkRemoteSubnets(tx *txn, n *network) error {
	if n.Type != schema.Overlay {
		return nil // without effect there
	}
	refuse := func(prefix, format string, args ...any) error {
		return hresult.Errorf(hresult.InvalidPolicy, "route to remote subnet %s: %w", prefix,
			fmt.Errorf(format, args...))
	}
	var seen []intent.RemoteSubnet
	for _, v := range settings[schema.RemoteSubnetRouteSetting](n.Policies, schema.RemoteSubnetRoutePolicy) {
		r, err := parseRemoteSubnet(v)
		if err != nil {
			return refuse(v.DestinationPrefix, "%w", err)
		}
		mac, _ := net.ParseMAC(r.DRMAC) // it is in the canonical form
		first := r.Prefix.Addr()
		switch {
		case !first.Is4() || r.Prefix.Bits() < 8 || first.IsLoopback() || first.IsMulticast() || first.As4()[0] == 0:
			return refuse(v.DestinationPrefix, "not a range of pods")
		case r.Prefix.Overlaps(s.uplink.Address.Masked()):
			return refuse(v.DestinationPrefix, "overlaps the nodes' network %s", s.uplink.Address.Masked())
		case !r.ProviderAddress.Is4() || r.ProviderAddress.IsUnspecified() || r.ProviderAddress.IsLoopback() ||
			r.ProviderAddress.IsMulticast() || r.ProviderAddress == s.uplink.Address.Addr():
			return refuse(v.DestinationPrefix, "provider address %s is not another node's", r.ProviderAddress)
		case mac[0]&1 != 0 || mac.String() == "00:00:00:00:00:00":
			return refuse(v.DestinationPrefix, "distributed router %s is not one device's address", r.DRMAC)
		case r.VSID >= 1<<24:
			return refuse(v.DestinationPrefix, "isolation ID %d has more than 24 bits", r.VSID)
		}
		for _, other := range seen {
			if exclusive(r, other) {
				return refuse(v.DestinationPrefix, "conflicts with %s at %s", other.Prefix, other.ProviderAddress)
			}
		}
		seen = append(seen, r)
	}
	for other := range tx.networks.all {
		for _, sub := range subnets(other) {
			for _, r := range seen {
				if r.Prefix == sub.prefix {
					return refuse(r.Prefix.String(), "is a subnet of network %s of this node", other.Name)
				}
			}
		}
		if other.ID != n.ID && other.Type == schema.Overlay {
			for _, theirs := range remoteSubnets(other) {
				if slices.ContainsFunc(seen, func(r intent.RemoteSubnet) bool {
					return r.Prefix == theirs.Prefix || r.VSID == theirs.VSID
				}) {
					return refuse(theirs.Prefix.String(), "network %s has it, or its VSID", other.Name)
				}
			}
		}
	}
	return nil
}

// exclusive reports whether two remote subnets of one network exclude each other: they are the same range, or
// place one router on two nodes.
func exclusive(a, b intent.RemoteSubnet) bool {
	return a.Prefix == b.Prefix ||
		a.VSID == b.VSID && a.DRMAC == b.DRMAC && a.ProviderAddress != b.ProviderAddress
}

// lingering is how long the data plane keeps a RemoteSubnetRoute after its removal. Whenever flanneld starts, it
// replaces the routes of all other nodes, each by a removal and an addition in two calls (flannel v0.28.10,
// pkg/backend/vxlan/vxlan_network_windows.go, handleSubnetEvents). No packet may be lost between the two.
const lingering = 2 * time.Second

// departure is a remote subnet that was removed.
type departure struct {
	network string
	subnet  intent.RemoteSubnet
	until   time.Time
}

// departures returns the departures as they are once st is the state.
// Preconditions: mu is held.
func (s *Service) departures(st *state) []departure {
	list := slices.Clone(s.departed)
	for before := range s.current.Load().networks.all {
		after := st.networks.get(before.ID)
		if after == nil || after == before || before.Type != schema.Overlay {
			continue
		}
		have := remoteSubnets(after)
		for _, r := range remoteSubnets(before) {
			if !slices.Contains(have, r) {
				list = append(list, departure{before.ID, r, time.Now().Add(s.lingering)})
			}
		}
	}
	return list
}

// withDeparted adds the departed subnets without a replacement to a network.
func withDeparted(n *intent.Network, departed []departure) {
	for _, d := range departed {
		if d.network == n.ID && !slices.ContainsFunc(n.RemoteSubnets, func(r intent.RemoteSubnet) bool {
			return exclusive(r, d.subnet)
		}) {
			n.RemoteSubnets = append(n.RemoteSubnets, d.subnet)
		}
	}
}

// fadeLater removes departed subnets from the data plane when their time is over.
// Preconditions: mu is held.
func (s *Service) fadeLater() {
	if s.fading || len(s.departed) == 0 {
		return
	}
	s.fading = true
	s.flushes.Go(func() {
		for {
			select {
			case <-time.After(s.lingering):
			case <-s.closed:
				return
			}
			if s.fade() {
				return
			}
		}
	})
}

// fade removes the departures whose time is over, and reports whether that were all.
func (s *Service) fade() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, before := time.Now(), len(s.departed)
	s.departed = slices.DeleteFunc(s.departed, func(d departure) bool { return !now.Before(d.until) })
	if len(s.departed) < before {
		want := compile(s.current.Load(), s.uplink, s.departed, s.cfg.limits(), s.cfg.GroupsOf)
		if err := s.cfg.DataPlane.Apply(context.Background(), want); err != nil {
			s.cfg.Log.Error("data plane differs from the store until the next change", logkey.Error, err)
		}
	}
	s.fading = len(s.departed) > 0
	return !s.fading
}
