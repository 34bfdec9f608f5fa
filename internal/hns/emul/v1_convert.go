// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// The store holds v2 documents. This file translates them from and to v1, where
// a policy is flat ({"Type":"ACL","Action":…}) and some have other names. Source
// of the names: github.com/Microsoft/hnslib v0.1.2, internal/hns/hnspolicy.go
// against hcn/hcnpolicy.go.

// policyNames pairs a v1 policy type with the v2 type, and their fields.
type policyNames struct {
	v1, v2 string
	fields [][2]string // v1 name, v2 name
}

func policyTable() []policyNames {
	return []policyNames{
		{"OutBoundNAT", schema.OutBoundNATPolicy, [][2]string{{"VIP", "VirtualIP"}, {"ExceptionList", "Exceptions"}}},
		{"ROUTE", schema.SDNRoutePolicy, nil},
		{"NAT", schema.PortMappingPolicy, nil}, // and Protocol, see protocolNumber
		{"PA", schema.ProviderAddressPolicy, [][2]string{{"PA", "ProviderAddress"}}},
		{"VSID", schema.VSIDPolicy, [][2]string{{"VSID", "IsolationId"}}},
		{"VLAN", schema.VLANPolicy, [][2]string{{"VLAN", "IsolationId"}}},
		{"PROXY", schema.L4ProxyPolicy, [][2]string{{"ExceptionList", "Exceptions"}, {"OutboundNat", "OutboundNAT"}}},
	}
}

func protocolNumber(name string) uint32 {
	switch strings.ToUpper(name) {
	case "TCP":
		return 6
	case "UDP":
		return 17
	case "SCTP":
		return 132
	}
	return 0
}

func protocolName(n float64) string {
	switch n {
	case 6:
		return "TCP"
	case 17:
		return "UDP"
	case 132:
		return "SCTP"
	}
	return ""
}

func policyFromV1(raw json.RawMessage) (schema.Policy, error) {
	fields := map[string]any{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return schema.Policy{}, hresult.Errorf(hresult.InvalidJSON, "decode policy: %w", err)
	}
	name := ""
	for k, v := range fields {
		if strings.EqualFold(k, "Type") {
			name, _ = v.(string)
			delete(fields, k)
		}
	}
	for _, p := range policyTable() {
		if !strings.EqualFold(name, p.v1) {
			continue
		}
		name = p.v2
		for _, f := range p.fields {
			rename(fields, f[0], f[1])
		}
		if text, ok := fields["Protocol"].(string); ok && p.v2 == schema.PortMappingPolicy {
			fields["Protocol"] = protocolNumber(text)
		}
		break
	}
	return newPolicy(name, fields), nil
}

func policyToV1(p schema.Policy) json.RawMessage {
	fields := map[string]any{}
	if json.Unmarshal(orEmpty(p.Settings), &fields) != nil {
		fields = map[string]any{}
	}
	name := p.Type
	for _, t := range policyTable() {
		if !isType(p, t.v2) {
			continue
		}
		name = t.v1
		for _, f := range t.fields {
			rename(fields, f[1], f[0])
		}
		if n, ok := fields["Protocol"].(float64); ok && t.v1 == "NAT" {
			fields["Protocol"] = protocolName(n)
		}
		break
	}
	fields["Type"] = name
	return newPolicy("", fields).Settings
}

func rename(fields map[string]any, from, to string) {
	for k, v := range fields {
		if strings.EqualFold(k, from) && k != to {
			delete(fields, k)
			fields[to] = v
			return
		}
	}
}

func policiesFromV1(raw []json.RawMessage) ([]schema.Policy, error) {
	var out []schema.Policy
	for _, r := range raw {
		p, err := policyFromV1(r)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func policiesToV1(policies []schema.Policy) []json.RawMessage {
	var out []json.RawMessage
	for _, p := range policies {
		out = append(out, policyToV1(p))
	}
	return out
}

func splitList(s string) []string {
	var out []string
	for word := range strings.SplitSeq(s, ",") {
		if word = strings.TrimSpace(word); word != "" {
			out = append(out, word)
		}
	}
	return out
}

func networkFromV1(v schema.V1Network) (schema.Network, error) {
	n := schema.Network{
		ID: v.ID, Name: v.Name, Type: schema.NetworkType(v.Type), Flags: v.Flags,
		MacPool: schema.MacPool{Ranges: v.MacPools},
		DNS:     schema.DNS{Search: splitList(v.DNSSuffix), ServerList: splitList(v.DNSServerList)},
	}
	var err error
	if n.Policies, err = policiesFromV1(v.Policies); err != nil {
		return n, err
	}
	if v.NetworkAdapterName != "" {
		n.Policies = append(n.Policies,
			newPolicy(schema.NetAdapterNamePolicy,
				schema.NetAdapterNameSetting{NetworkAdapterName: v.NetworkAdapterName}))
	}
	if v.SourceMac != "" {
		n.Policies = append(n.Policies,
			newPolicy(schema.SourceMacAddressPolicy, schema.SourceMacAddressSetting{SourceMacAddress: v.SourceMac}))
	}
	if v.AutomaticDNS {
		n.Policies = append(n.Policies, newPolicy(schema.AutomaticDNSPolicy, schema.AutomaticDNSSetting{Enable: true}))
	}
	var subs []schema.Subnet
	for _, s := range v.Subnets {
		sub := schema.Subnet{IPAddressPrefix: s.AddressPrefix}
		if sub.Policies, err = policiesFromV1(s.Policies); err != nil {
			return n, err
		}
		if gw, err := netip.ParseAddr(s.GatewayAddress); err == nil {
			sub.Routes = []schema.Route{{NextHop: s.GatewayAddress, DestinationPrefix: defaultPrefix(gw)}}
		} else if s.GatewayAddress != "" {
			return n, hresult.Errorf(hresult.InvalidIP, "gateway %q: %w", s.GatewayAddress, err)
		}
		subs = append(subs, sub)
	}
	if subs != nil {
		n.Ipams = []schema.Ipam{{Type: "Static", Subnets: subs}}
	}
	return n, nil
}

func (s *Service) networkToV1(n *network) schema.V1Network {
	v := schema.V1Network{
		ID: n.ID, Name: n.Name, Type: string(n.Type), Flags: n.Flags, MacPools: n.MacPool.Ranges,
		DNSSuffix: strings.Join(n.DNS.Search, ","), DNSServerList: strings.Join(n.DNS.ServerList, ","),
	}
	for _, p := range n.Policies {
		switch {
		case isType(p, schema.NetAdapterNamePolicy):
			a, _ := setting[schema.NetAdapterNameSetting]([]schema.Policy{p}, p.Type)
			v.NetworkAdapterName = a.NetworkAdapterName
		case isType(p, schema.SourceMacAddressPolicy):
			a, _ := setting[schema.SourceMacAddressSetting]([]schema.Policy{p}, p.Type)
			v.SourceMac = a.SourceMacAddress
		case isType(p, schema.AutomaticDNSPolicy):
			a, _ := setting[schema.AutomaticDNSSetting]([]schema.Policy{p}, p.Type)
			v.AutomaticDNS = a.Enable
		default:
			v.Policies = append(v.Policies, policyToV1(p))
		}
	}
	switch n.Type {
	case schema.NAT, schema.ICS, schema.Private:
	default:
		// flannel waits until it is there, and looks for an adapter that has it.
		v.ManagementIP = s.uplink.Address.Addr().String()
	}
	for _, ipam := range n.Ipams {
		for _, sub := range ipam.Subnets {
			w := schema.V1Subnet{AddressPrefix: sub.IPAddressPrefix, Policies: policiesToV1(sub.Policies)}
			if len(sub.Routes) > 0 {
				w.GatewayAddress = sub.Routes[0].NextHop
			}
			v.Subnets = append(v.Subnets, w)
		}
	}
	return v
}

func endpointFromV1(v schema.V1Endpoint) (schema.Endpoint, error) {
	e := schema.Endpoint{
		ID: v.ID, Name: v.Name, HostComputeNetwork: v.VirtualNetwork, MacAddress: v.MacAddress,
		DNS: schema.DNS{Domain: v.DNSDomain, Search: splitList(v.DNSSuffix), ServerList: splitList(v.DNSServerList)},
	}
	var err error
	if e.Policies, err = policiesFromV1(v.Policies); err != nil {
		return e, err
	}
	if v.IPAddress != "" {
		e.IPConfigurations = append(e.IPConfigurations,
			schema.IPConfig{IPAddress: v.IPAddress, PrefixLength: v.PrefixLength})
	}
	if v.IPv6Address != "" {
		e.IPConfigurations = append(e.IPConfigurations,
			schema.IPConfig{IPAddress: v.IPv6Address, PrefixLength: v.IPv6PrefixLength})
	}
	for _, gw := range []string{v.GatewayAddress, v.GatewayAddressV6} {
		if a, err := netip.ParseAddr(gw); err == nil {
			e.Routes = append(e.Routes, schema.Route{NextHop: gw, DestinationPrefix: defaultPrefix(a)})
		} else if gw != "" {
			return e, hresult.Errorf(hresult.InvalidIP, "gateway %q: %w", gw, err)
		}
	}
	for flag, on := range map[schema.EndpointFlags]bool{
		schema.RemoteEndpoint: v.IsRemoteEndpoint, schema.DisableInterComputeCommunication: v.DisableICC,
		schema.EnableLowInterfaceMetric: v.EnableLowMetric,
	} {
		if on {
			e.Flags |= flag
		}
	}
	if v.EncapOverhead > 0 {
		e.Policies = append(e.Policies,
			newPolicy(schema.EncapOverheadPolicy, schema.EncapOverheadSetting{Overhead: v.EncapOverhead}))
	}
	return e, nil
}

func endpointToV1(s *state, e *endpoint) schema.V1Endpoint {
	v := schema.V1Endpoint{
		ID:               e.ID,
		Name:             e.Name,
		VirtualNetwork:   e.HostComputeNetwork,
		MacAddress:       e.MacAddress,
		DNSDomain:        e.DNS.Domain,
		DNSSuffix:        strings.Join(e.DNS.Search, ","),
		DNSServerList:    strings.Join(e.DNS.ServerList, ","),
		IsRemoteEndpoint: e.remote(),
		DisableICC:       e.Flags&schema.DisableInterComputeCommunication != 0,
		EnableLowMetric:  e.Flags&schema.EnableLowInterfaceMetric != 0,
		SharedContainers: sharedContainers(s, e),
		State:            endpointState(e),
	}
	if n := s.networks.get(e.HostComputeNetwork); n != nil {
		v.VirtualNetworkName = n.Name
	}
	for _, p := range e.Policies {
		if isType(p, schema.EncapOverheadPolicy) {
			o, _ := setting[schema.EncapOverheadSetting]([]schema.Policy{p}, p.Type)
			v.EncapOverhead = o.Overhead
			continue
		}
		v.Policies = append(v.Policies, policyToV1(p))
	}
	for _, c := range e.IPConfigurations {
		switch a, err := netip.ParseAddr(c.IPAddress); {
		case err != nil:
		case a.Is4() && v.IPAddress == "":
			v.IPAddress, v.PrefixLength = c.IPAddress, c.PrefixLength
		case a.Is6() && v.IPv6Address == "":
			v.IPv6Address, v.IPv6PrefixLength = c.IPAddress, c.PrefixLength
		}
	}
	for _, r := range e.Routes {
		switch r.DestinationPrefix {
		case "0.0.0.0/0":
			v.GatewayAddress = r.NextHop
		case "::/0":
			v.GatewayAddressV6 = r.NextHop
		}
	}
	if ns := s.namespaces.get(e.HostComputeNamespace); ns != nil {
		w := namespaceToV1(ns)
		v.Namespace = &w
	}
	return v
}

func endpointState(e *endpoint) schema.EndpointState {
	switch {
	case len(e.Containers) > 1:
		return schema.EndpointShared
	case e.HostAttached || e.HostComputeNamespace != "" || len(e.Containers) == 1:
		return schema.EndpointAttached
	case e.WasAttached:
		return schema.EndpointDetached
	}
	return schema.EndpointCreated
}

func namespaceToV1(ns *namespace) schema.V1Namespace {
	return schema.V1Namespace{
		ID:            ns.ID,
		IsDefault:     ns.BuiltIn,
		CompartmentID: ns.NamespaceID,
		ResourceList:  ns.resources(),
	}
}

// endpointReference is how v1 names an endpoint in a policy list.
const endpointReference = "/endpoints/"

func balancerToV1(lb *balancer) schema.V1PolicyList {
	v := schema.V1PolicyList{ID: lb.ID, References: v1References(lb.HostComputeEndpoints)}
	for _, m := range lb.PortMappings {
		v.Policies = append(v.Policies, newPolicy("", schema.V1ELB{
			Type:         "ELB",
			Protocol:     uint16(m.Protocol),
			InternalPort: m.InternalPort,
			ExternalPort: m.ExternalPort,
			SourceVIP:    lb.SourceVIP,
			VIPs:         lb.FrontendVIPs,
			ILB:          m.Flags&schema.LBILB != 0,
			DSR:          lb.Flags&schema.DSR != 0,
		}).Settings)
	}
	return v
}

func routeToV1(r *sdnRoute) schema.V1PolicyList {
	v := schema.V1PolicyList{ID: r.ID, References: v1References(r.HostComputeEndpoints)}
	for _, x := range r.Setting {
		v.Policies = append(v.Policies, newPolicy("", schema.V1Route{
			Type: "ROUTE", DestinationPrefix: x.DestinationPrefix, NextHop: x.NextHop, NeedEncap: x.NeedEncap,
		}).Settings)
	}
	return v
}

func v1References(ids []string) []string {
	var out []string
	for _, id := range ids {
		out = append(out, endpointReference+id)
	}
	return out
}

// policyListFromV1 stores a policy list: as a load balancer if its policies are
// ELB, as a route if they are ROUTE.
func policyListFromV1(tx *txn, id string, v schema.V1PolicyList) error {
	var ids []string
	for _, ref := range v.References {
		// strings.Cut and not TrimPrefix: clients send the path in any case.
		ids = append(ids, ref[strings.LastIndex(ref, "/")+1:])
	}
	lb := schema.LoadBalancer{HostComputeEndpoints: ids}
	route := schema.SDNRoute{HostComputeEndpoints: ids}
	for _, raw := range v.Policies {
		var kind struct{ Type string }
		if err := decode(string(raw), &kind); err != nil {
			return err
		}
		switch {
		case strings.EqualFold(kind.Type, "ELB"):
			var elb schema.V1ELB
			if err := decode(string(raw), &elb); err != nil {
				return err
			}
			m := schema.LBPortMapping{Protocol: uint32(elb.Protocol), InternalPort: elb.InternalPort,
				ExternalPort: elb.ExternalPort}
			if elb.ILB {
				m.Flags |= schema.LBILB
			}
			if elb.DSR {
				lb.Flags |= schema.DSR
			}
			lb.SourceVIP, lb.FrontendVIPs = elb.SourceVIP, slices.Clone(elb.VIPs)
			lb.PortMappings = append(lb.PortMappings, m)
		case strings.EqualFold(kind.Type, "ROUTE"):
			var r schema.V1Route
			if err := decode(string(raw), &r); err != nil {
				return err
			}
			route.Setting = append(route.Setting, schema.SDNRouteSetting{DestinationPrefix: r.DestinationPrefix,
				NextHop: r.NextHop, NeedEncap: r.NeedEncap})
		default:
			return hresult.Errorf(hresult.InvalidPolicyType, "policy list of type %q", kind.Type)
		}
	}
	switch {
	case len(lb.PortMappings) > 0 && len(route.Setting) > 0:
		return hresult.Errorf(hresult.InvalidPolicy, "policy list of both ELB and ROUTE")
	case len(route.Setting) > 0:
		return storeRoute(tx, id, route)
	}
	return storeLoadBalancer(tx, id, lb)
}

func statsToV1(endpointID string, s intent.Stats) schema.V1EndpointStats {
	return schema.V1EndpointStats{
		EndpointID:             endpointID,
		InstanceID:             endpointID,
		BytesReceived:          s.BytesReceived,
		BytesSent:              s.BytesSent,
		PacketsReceived:        s.PacketsReceived,
		PacketsSent:            s.PacketsSent,
		DroppedPacketsIncoming: s.DroppedPacketsIncoming,
		DroppedPacketsOutgoing: s.DroppedPacketsOutgoing,
	}
}
