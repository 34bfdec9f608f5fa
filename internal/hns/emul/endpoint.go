// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"net/netip"
	"slices"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// createEndpoint checks the document, fills in HNS's fields, and stores it. It
// creates no device: attaching the endpoint does.
func (s *Service) createEndpoint(tx *txn, networkID, id schema.GUID, settings string) (schema.GUID, error) {
	doc, err := decodeEndpoint(settings)
	if err != nil {
		return id, err
	}
	if id, err = chooseID(id, doc.ID); err != nil {
		return id, err
	}
	doc.ID = id.String()
	if tx.endpoints.get(doc.ID) != nil {
		return id, hresult.Errorf(hresult.AlreadyExists, "endpoint %s", doc.ID)
	}
	if !networkID.IsZero() {
		doc.HostComputeNetwork = networkID.String()
	}
	n := tx.networks.get(schema.CanonicalGUID(doc.HostComputeNetwork))
	if n == nil {
		return id, notFound(hns.Network, doc.HostComputeNetwork)
	}
	wanted := doc.HostComputeNamespace
	e := &endpoint{Endpoint: doc}
	e.HostComputeNetwork, e.HostComputeNamespace, e.SchemaVersion = n.ID, "", schema.V2()
	if err := checkPolicies(e.Policies, schema.EndpointPolicies()); err != nil {
		return id, err
	}
	if err := completeAddresses(tx, n, e); err != nil {
		return id, err
	}
	if err := checkPortMappings(tx, e); err != nil {
		return id, err
	}
	if e.MacAddress == "" {
		e.MacAddress, err = newMAC(&tx.state, n)
	} else if e.MacAddress, err = canonicalMAC(e.MacAddress); err != nil {
		err = hresult.Errorf(hresult.InvalidEndpoint, "%w", err)
	}
	if err != nil {
		return id, err
	}
	if e.DNS.IsZero() && !e.remote() {
		e.DNS = n.DNS
	}
	tx.setEndpoint(e.ID, e)
	if wanted != "" {
		return id, s.attach(tx, schema.CanonicalGUID(wanted), e.ID)
	}
	return id, nil
}

// completeAddresses checks the addresses that the client gave, chooses missing
// ones, and adds the default route: no endpoint is ever without address, no local
// one without a route (rule G10).
func completeAddresses(tx *txn, n *network, e *endpoint) error {
	configs := slices.DeleteFunc(slices.Clone(e.IPConfigurations), func(c schema.IPConfig) bool {
		return c.IPAddress == ""
	})
	if e.remote() {
		return completeRemote(n, e, configs)
	}
	used := usedAddresses(&tx.state, n.ID)
	var gateways []netip.Addr
	for i, c := range configs {
		a, err := netip.ParseAddr(c.IPAddress)
		if err != nil {
			return hresult.Errorf(hresult.InvalidIP, "address %q: %w", c.IPAddress, err)
		}
		a = a.Unmap()
		sub, err := subnetFor(n, a)
		if err != nil {
			return err
		}
		if used[a] {
			return hresult.Errorf(hresult.ObjectAlreadyExists, "address %s in network %s", a, n.Name)
		}
		configs[i].IPAddress = a.String()
		if c.PrefixLength == 0 {
			configs[i].PrefixLength = uint8(prefixBits(sub, a))
		}
		gateways = append(gateways, sub.gateway)
	}
	if len(configs) == 0 {
		a, sub, err := allocate(&tx.state, n)
		if err != nil {
			return err
		}
		configs = []schema.IPConfig{{IPAddress: a.String(), PrefixLength: uint8(sub.prefix.Bits())}}
		gateways = append(gateways, sub.gateway)
	}
	e.IPConfigurations = configs
	return completeRoutes(e, gateways)
}

// completeRemote takes any address: addresses of other nodes and of the world lie
// outside the network's subnets.
func completeRemote(n *network, e *endpoint, configs []schema.IPConfig) error {
	if len(configs) == 0 {
		return hresult.Errorf(hresult.InvalidIP, "remote endpoint without an address")
	}
	for i, c := range configs {
		a, err := netip.ParseAddr(c.IPAddress)
		if err != nil {
			return hresult.Errorf(hresult.InvalidIP, "address %q: %w", c.IPAddress, err)
		}
		a = a.Unmap()
		configs[i].IPAddress = a.String()
		if sub, err := subnetFor(n, a); err == nil && c.PrefixLength == 0 {
			configs[i].PrefixLength = uint8(prefixBits(sub, a))
		}
	}
	e.IPConfigurations = configs
	return nil
}

func prefixBits(sub subnet, a netip.Addr) int {
	if !sub.prefix.IsValid() {
		return a.BitLen()
	}
	return sub.prefix.Bits()
}

// subnetFor returns the subnet that a local address lies in. A network without
// subnets (Transparent, Private) takes every address.
func subnetFor(n *network, a netip.Addr) (subnet, error) {
	all := subnets(n)
	if len(all) == 0 {
		return subnet{}, nil
	}
	for _, sub := range all {
		if !sub.prefix.Contains(a) {
			continue
		}
		if why := reserved(sub, a); why != "" {
			return sub, hresult.Errorf(hresult.AddrInvalidOrReserved, "address %s: %s", a, why)
		}
		return sub, nil
	}
	return subnet{}, hresult.Errorf(hresult.AddrInvalidOrReserved, "address %s: outside of network %s", a, n.Name)
}

// completeRoutes drops routes without a next hop (win-bridge without IPAM sends
// one to "::/0") and adds the default routes that are missing.
func completeRoutes(e *endpoint, gateways []netip.Addr) error {
	routes := slices.DeleteFunc(slices.Clone(e.Routes), func(r schema.Route) bool { return r.NextHop == "" })
	covered := map[bool]bool{} // by "is IPv4"
	for _, r := range routes {
		hop, err := netip.ParseAddr(r.NextHop)
		if err != nil {
			return hresult.Errorf(hresult.InvalidIP, "next hop %q: %w", r.NextHop, err)
		}
		dst, err := parsePrefix(r.DestinationPrefix)
		if err != nil {
			return hresult.Errorf(hresult.InvalidPrefix, "route to %q: %w", r.DestinationPrefix, err)
		}
		if dst.Bits() == 0 {
			covered[hop.Is4()] = true
		}
	}
	for _, gw := range gateways {
		if gw.IsValid() && !covered[gw.Is4()] {
			routes = append(routes, schema.Route{NextHop: gw.String(), DestinationPrefix: defaultPrefix(gw)})
			covered[gw.Is4()] = true
		}
	}
	e.Routes = routes
	return nil
}

// checkPortMappings refuses a host port that another endpoint has.
func checkPortMappings(tx *txn, e *endpoint) error {
	type port struct {
		protocol uint32
		number   uint16
		ipv6     bool
	}
	mine := map[port][]string{}
	for _, m := range settings[schema.PortMappingSetting](e.Policies, schema.PortMappingPolicy) {
		p := port{m.Protocol, m.ExternalPort, m.Flags&schema.NatIPv6 != 0}
		mine[p] = append(mine[p], m.VIP)
	}
	if len(mine) == 0 {
		return nil
	}
	for other := range tx.endpoints.all {
		if other.ID == e.ID || len(other.Policies) == 0 {
			continue
		}
		for _, m := range settings[schema.PortMappingSetting](other.Policies, schema.PortMappingPolicy) {
			for _, vip := range mine[port{m.Protocol, m.ExternalPort, m.Flags&schema.NatIPv6 != 0}] {
				if vip == m.VIP || vip == "" || m.VIP == "" {
					return hresult.Errorf(hresult.PortAlreadyExists, "port %d protocol %d of endpoint %s",
						m.ExternalPort, m.Protocol, other.ID)
				}
			}
		}
	}
	return nil
}

// modifyEndpoint changes the policies of an endpoint.
//
// Fidelity: subset - the resource type Port is refused (docs/fidelity/hns.md).
func (s *Service) modifyEndpoint(tx *txn, id, settings string) error {
	e, err := modified(hns.Endpoint, id, settings, tx.endpoints.get(id), func(e *endpoint) *[]schema.Policy {
		return &e.Policies
	}, schema.EndpointPolicies())
	if err != nil {
		return err
	}
	if err := checkPortMappings(tx, e); err != nil {
		return err
	}
	tx.setEndpoint(id, e)
	tx.plane = true
	return nil
}

// dropEndpoint removes an endpoint from its namespace, from the load balancers
// and routes that refer to it, and from the store.
func dropEndpoint(tx *txn, e *endpoint) {
	if e.HostComputeNamespace != "" {
		leaveNamespace(tx, e)
	}
	tx.plane = tx.plane || e.HostAttached
	is := func(id string) bool { return id == e.ID }
	for lb := range tx.balancers.all {
		if slices.ContainsFunc(lb.HostComputeEndpoints, is) {
			changed := *lb
			changed.HostComputeEndpoints = slices.DeleteFunc(slices.Clone(lb.HostComputeEndpoints), is)
			tx.setBalancer(lb.ID, &changed)
		}
	}
	for r := range tx.routes.all {
		if slices.ContainsFunc(r.HostComputeEndpoints, is) {
			changed := *r
			changed.HostComputeEndpoints = slices.DeleteFunc(slices.Clone(r.HostComputeEndpoints), is)
			tx.setRoute(r.ID, &changed)
		}
	}
	tx.setEndpoint(e.ID, nil)
}
