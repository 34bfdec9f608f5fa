// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// createNetwork checks the document, fills in HNS's fields, and stores it.
func (s *Service) createNetwork(tx *txn, id schema.GUID, settings string) (schema.GUID, error) {
	doc, err := decodeNetwork(settings)
	if err != nil {
		return id, err
	}
	if id, err = chooseID(id, doc.ID); err != nil {
		return id, err
	}
	doc.ID = id.String()
	if tx.networks.get(doc.ID) != nil {
		return id, hresult.Errorf(hresult.NetworkAlreadyExists, "network %s", doc.ID)
	}
	n := &network{Network: doc}
	if err := s.completeNetwork(tx, n); err != nil {
		return id, err
	}
	if err := checkNetwork(tx, n); err != nil {
		return id, err
	}
	if err := s.checkRemoteSubnets(tx, n); err != nil {
		return id, err
	}
	tx.setNetwork(n.ID, n)
	return id, nil
}

// completeNetwork fills in the fields that HNS chooses itself.
func (s *Service) completeNetwork(tx *txn, n *network) error {
	n.SchemaVersion = schema.V2()
	n.Type = cmp.Or(n.Type, schema.NAT) // hnslib's default for a network without a type
	i := slices.IndexFunc(schema.NetworkTypes(), func(t schema.NetworkType) bool {
		return strings.EqualFold(string(t), string(n.Type))
	})
	if i < 0 {
		return hresult.Errorf(hresult.InvalidNetworkType, "network type %q", n.Type)
	}
	n.Type = schema.NetworkTypes()[i]
	if len(subnets(n)) == 0 && (n.Type == schema.NAT || n.Type == schema.ICS) {
		p, err := natPool(&tx.state)
		if err != nil {
			return err
		}
		n.Ipams = []schema.Ipam{{Type: "Static", Subnets: []schema.Subnet{{IPAddressPrefix: p.String()}}}}
	}
	n.Ipams = slices.Clone(n.Ipams)
	for i := range n.Ipams {
		ipam := &n.Ipams[i]
		ipam.Type = cmp.Or(ipam.Type, "Static")
		ipam.Subnets = slices.Clone(ipam.Subnets)
		for j := range ipam.Subnets {
			addGateway(&ipam.Subnets[j])
		}
	}
	return s.addNetworkPolicies(n)
}

// addGateway gives a subnet without routes its first address as the gateway:
// clients take the first route of a subnet without looking (rule G10).
func addGateway(sub *schema.Subnet) {
	p, err := parsePrefix(sub.IPAddressPrefix)
	if err != nil || len(sub.Routes) > 0 || p.IsSingleIP() {
		return
	}
	sub.Routes = []schema.Route{{NextHop: p.Addr().Next().String(), DestinationPrefix: defaultPrefix(p.Addr())}}
}

func defaultPrefix(a netip.Addr) string {
	if a.Is4() {
		return "0.0.0.0/0"
	}
	return "::/0"
}

// addNetworkPolicies adds the policies in which HNS reports the adapter, and for
// overlays the tunnel's addresses: flannel and kube-proxy read them.
func (s *Service) addNetworkPolicies(n *network) error {
	has := func(name string) bool {
		return slices.ContainsFunc(n.Policies, func(p schema.Policy) bool { return isType(p, name) })
	}
	n.Policies = slices.Clone(n.Policies)
	switch n.Type {
	case schema.L2Bridge, schema.L2Tunnel, schema.Overlay, schema.Transparent:
		if !has(schema.NetAdapterNamePolicy) && !has(schema.InterfaceConstraintPolicy) {
			n.Policies = append(n.Policies,
				newPolicy(schema.NetAdapterNamePolicy, schema.NetAdapterNameSetting{NetworkAdapterName: s.uplink.Name}))
		}
	}
	if n.Type != schema.Overlay {
		return nil
	}
	if !has(schema.ProviderAddressPolicy) {
		n.Policies = append(n.Policies,
			newPolicy(schema.ProviderAddressPolicy,
				schema.ProviderAddressSetting{ProviderAddress: s.uplink.Address.Addr().String()}))
	}
	if !has(schema.DrMacAddressPolicy) {
		mac, err := newMAC(s.current.Load(), &network{})
		if err != nil {
			return err
		}
		n.Policies = append(n.Policies, newPolicy(schema.DrMacAddressPolicy, schema.DrMacAddressSetting{Address: mac}))
	}
	return nil
}

// checkNetwork refuses a network that the data plane or a client could not handle.
func checkNetwork(tx *txn, n *network) error {
	if err := checkPolicies(n.Policies, schema.NetworkPolicies()); err != nil {
		return err
	}
	for _, ipam := range n.Ipams {
		for _, sub := range ipam.Subnets {
			if err := checkSubnet(sub); err != nil {
				return err
			}
		}
	}
	mine := subnets(n)
	if len(mine) == 0 && (n.Type == schema.L2Bridge || n.Type == schema.L2Tunnel || n.Type == schema.Overlay) {
		return &hresult.Error{Code: hresult.InvalidNetwork, Op: "create network " + n.Name + " without a subnet"}
	}
	for other := range tx.networks.all {
		if other.ID == n.ID || other.Type != n.Type || n.Type == schema.Private {
			continue
		}
		for _, a := range mine {
			for _, b := range subnets(other) {
				if n.Type == schema.Overlay && a.vsid != 0 && a.vsid == b.vsid {
					return hresult.Errorf(hresult.ObjectAlreadyExists, "VSID %d is that of network %s", a.vsid,
						other.Name)
				}
				// A host has one table of routes, so ranges may not overlap even if a VSID keeps them apart.
				if a.prefix.Overlaps(b.prefix) && (a.vsid == b.vsid || n.Type == schema.Overlay) && a.vlan == b.vlan {
					return hresult.Errorf(hresult.ObjectAlreadyExists, "subnet %s overlaps %s of network %s", a.prefix,
						b.prefix, other.Name)
				}
			}
		}
	}
	return nil
}

func checkSubnet(sub schema.Subnet) error {
	p, err := netip.ParsePrefix(sub.IPAddressPrefix)
	if err != nil {
		return hresult.Errorf(hresult.InvalidPrefix, "subnet %q: %w", sub.IPAddressPrefix, err)
	}
	for _, r := range sub.Routes {
		dst, err := parsePrefix(r.DestinationPrefix)
		if err != nil {
			return hresult.Errorf(hresult.InvalidPrefix, "route to %q: %w", r.DestinationPrefix, err)
		}
		if r.NextHop == "" {
			continue
		}
		hop, err := netip.ParseAddr(r.NextHop)
		if err != nil {
			return hresult.Errorf(hresult.InvalidIP, "next hop %q: %w", r.NextHop, err)
		}
		if dst.Bits() == 0 && !p.Contains(hop) {
			return hresult.Errorf(hresult.AddrInvalidOrReserved, "gateway %s outside of subnet %s", hop, p)
		}
	}
	return checkPolicies(sub.Policies, schema.SubnetPolicies())
}

// modifyNetwork changes the policies of a network.
//
// Fidelity: subset - the resource types DNS, Extension, Subnet and IPSubnet are
// refused (docs/fidelity/hns.md).
func (s *Service) modifyNetwork(tx *txn, id, settings string) error {
	n, err := modified(hns.Network, id, settings, tx.networks.get(id), func(n *network) *[]schema.Policy {
		return &n.Policies
	}, schema.NetworkPolicies())
	if err != nil {
		return err
	}
	if err := s.checkRemoteSubnets(tx, n); err != nil {
		return err
	}
	tx.setNetwork(id, n)
	return nil
}

// dropNetwork removes a network and the endpoints on it.
func dropNetwork(tx *txn, id string) {
	for e := range tx.endpoints.all {
		if e.HostComputeNetwork == id {
			dropEndpoint(tx, e)
		}
	}
	tx.setNetwork(id, nil)
}
