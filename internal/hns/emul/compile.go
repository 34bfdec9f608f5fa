// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// compile turns the objects into the desired state of the data plane. It is pure,
// except that it caches in an object the part that does not depend on other
// objects: a cluster with 5,000 services has 10,000 objects, and each change
// compiles them all. It leaves out settings that it cannot express; the documents
// keep them, and docs/fidelity/hns.md lists them.
//
// Fidelity: subset - the list of policies that is generated in docs/fidelity/hns.md.
func compile(s *state, uplink intent.Uplink, departed []departure, l limits,
	groups func(sid string) []uint32) intent.Host {
	h := intent.Host{
		Uplink:          uplink,
		NoLocalBackends: l.noLocalBackends,
		Networks:        make([]intent.Network, 0, len(s.networks.order)),
		Endpoints:       make([]intent.Endpoint, 0, len(s.endpoints.order)),
		LoadBalancers:   make([]intent.LoadBalancer, 0, len(s.balancers.order)),
	}
	if l.singleStack {
		h.Uplink.Address6 = netip.Prefix{}
	}
	for n := range s.networks.all {
		out := compileNetwork(n)
		withDeparted(&out, departed)
		h.Networks = append(h.Networks, out)
	}
	routes := routesByEndpoint(s)
	// Attached endpoints come first, in the order in which they were attached:
	// that order names the adapters in a namespace.
	attached := map[string]bool{}
	for ns := range s.namespaces.all {
		for _, id := range ns.Endpoints {
			if e := s.endpoints.get(id); e != nil && !attached[id] {
				attached[id] = true
				h.Endpoints = append(h.Endpoints, compileEndpoint(s, e, routes[id], groups))
			}
		}
	}
	for e := range s.endpoints.all {
		if !attached[e.ID] {
			h.Endpoints = append(h.Endpoints, compileEndpoint(s, e, routes[e.ID], groups))
		}
	}
	for lb := range s.balancers.all {
		if lb.compiled == nil {
			lb.compiled = compileLoadBalancer(s, lb, l)
		}
		h.LoadBalancers = append(h.LoadBalancers, lb.compiled...)
	}
	return h
}

func compileNetwork(n *network) intent.Network {
	out := intent.Network{ID: n.ID, Name: n.Name, Type: intent.NetworkType(n.Type)}
	for _, sub := range subnets(n) {
		out.Subnets = append(out.Subnets, intent.Subnet{
			Prefix:  sub.prefix,
			Gateway: sub.gateway,
			VSID:    sub.vsid,
			VLAN:    sub.vlan,
		})
	}
	if v, ok := setting[schema.DrMacAddressSetting](n.Policies, schema.DrMacAddressPolicy); ok {
		out.DRMAC = v.Address
	}
	if v, ok := setting[schema.VxlanPortSetting](n.Policies, schema.VxlanPortPolicy); ok {
		out.VXLANPort = v.Port
	}
	out.RemoteSubnets = remoteSubnets(n)
	return out
}

// uplinkMTU is the MTU from which EncapOverhead is subtracted. The only link of
// an emulated host is Ethernet.
const uplinkMTU = 1500

func compileEndpoint(s *state, e *endpoint, routes []schema.SDNRouteSetting,
	groups func(sid string) []uint32) intent.Endpoint {
	// Most endpoints of a large cluster are remote and have no more than an
	// address.
	plain := e.remote() && len(e.Policies) == 0 && len(routes) == 0
	if plain && e.compiled != nil {
		return *e.compiled
	}
	out := intent.Endpoint{
		ID: e.ID, Name: e.Name, NetworkID: e.HostComputeNetwork, NamespaceID: e.HostComputeNamespace,
		MAC: e.MacAddress, Remote: e.remote(), HostAttached: e.HostAttached,
	}
	if e.HostAttached {
		out.NamespaceID = "" // the data plane has no namespace for the host itself
	}
	for _, c := range e.IPConfigurations {
		if a, err := netip.ParseAddr(c.IPAddress); err == nil {
			bits := int(c.PrefixLength)
			if bits == 0 || bits > a.BitLen() {
				bits = a.BitLen()
			}
			out.Addresses = append(out.Addresses, netip.PrefixFrom(a, bits))
		}
	}
	for _, r := range e.Routes {
		dst, err := parsePrefix(r.DestinationPrefix)
		hop, _ := netip.ParseAddr(r.NextHop)
		switch {
		case err != nil || !hop.IsValid():
		case dst.Bits() == 0 && hop.Is4() && !out.Gateway.IsValid():
			out.Gateway = hop
		case dst.Bits() == 0 && hop.Is6() && !out.Gateway6.IsValid():
			out.Gateway6 = hop
		default:
			out.Routes = append(out.Routes, intent.Route{Destination: dst, NextHop: hop})
		}
	}
	if plain {
		e.compiled = &out
		return out
	}
	for _, r := range append(settings[schema.SDNRouteSetting](e.Policies, schema.SDNRoutePolicy), routes...) {
		dst, err := parsePrefix(r.DestinationPrefix)
		// Without a next hop the route means "through the host", which is where the
		// data plane sends everything anyway.
		if hop, _ := netip.ParseAddr(r.NextHop); err == nil && hop.IsValid() {
			out.Routes = append(out.Routes, intent.Route{Destination: dst, NextHop: hop})
		}
	}
	if v, ok := setting[schema.EncapOverheadSetting](e.Policies, schema.EncapOverheadPolicy); ok && v.Overhead > 0 {
		out.MTU = uplinkMTU - int(v.Overhead)
	}
	out.MaxRate = maxRate(e)
	compileProxies(e, groups, &out)
	compileNAT(e, &out)
	compileACLs(s, e, &out)
	return out
}

// maxRate returns the lowest bound of the endpoint's QOS policies. 0 means no bound, as in Hyper-V's
// MaximumBandwidth (https://learn.microsoft.com/powershell/module/hyper-v/set-vmnetworkadapter, read 2026-11).
func maxRate(e *endpoint) (rate uint64) {
	for _, v := range settings[schema.QOSSetting](e.Policies, schema.QOSPolicy) {
		if r := v.MaximumOutgoingBandwidthInBytes; r > 0 && (rate == 0 || r < rate) {
			rate = r
		}
	}
	return rate
}

func compileNAT(e *endpoint, out *intent.Endpoint) {
	for _, v := range settings[schema.OutBoundNATSetting](e.Policies, schema.OutBoundNATPolicy) {
		vip, _ := netip.ParseAddr(v.VirtualIP)
		out.OutboundNAT = append(out.OutboundNAT, intent.OutboundNAT{
			VirtualIP: vip, Exceptions: parsePrefixes(v.Exceptions), Destinations: parsePrefixes(v.Destinations),
			IPv6: v.Flags&schema.NatIPv6 != 0,
		})
	}
	for _, v := range settings[schema.PortMappingSetting](e.Policies, schema.PortMappingPolicy) {
		vip, _ := netip.ParseAddr(v.VIP)
		if v.Protocol == 0 || v.Protocol > 255 || v.InternalPort == 0 || v.ExternalPort == 0 {
			continue
		}
		if vip.IsValid() && vip.IsUnspecified() {
			vip = netip.Addr{} // hostIP 0.0.0.0 means every address
		}
		out.PortMappings = append(out.PortMappings, intent.PortMapping{
			Protocol: uint8(v.Protocol), InternalPort: v.InternalPort, ExternalPort: v.ExternalPort,
			VIP: vip, LocalRouted: v.Flags&schema.NatLocalRoutedVIP != 0,
			IPv6: v.Flags&schema.NatIPv6 != 0,
		})
	}
}

// parsePrefixes skips invalid prefixes; policies were checked before.
func parsePrefixes(list []string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		if p, err := parsePrefix(s); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// compileACLs lists the rules of the endpoint and of its network.
func compileACLs(s *state, e *endpoint, out *intent.Endpoint) {
	acls := settings[schema.ACLSetting](e.Policies, schema.ACLPolicy)
	sets := map[string]string{}
	if n := s.networks.get(e.HostComputeNetwork); n != nil {
		acls = append(acls, settings[schema.ACLSetting](n.Policies, schema.NetworkACLPolicy)...)
		for _, v := range settings[schema.SetPolicySetting](n.Policies, schema.SetPolicyPolicy) {
			sets[v.ID], sets[v.Name] = v.Values, v.Values
		}
	}
	add := func(tier int, acls []schema.ACLSetting) {
		for _, v := range acls {
			if rule, ok := compileACL(v, sets); ok {
				rule.Tier = tier
				out.ACLs = append(out.ACLs, rule)
			}
		}
	}
	add(0, acls)
	tiers := settings[schema.TierACLSetting](e.Policies, schema.TierACLPolicy)
	slices.SortStableFunc(tiers, func(a, b schema.TierACLSetting) int { return int(a.Order) - int(b.Order) })
	for i, tier := range tiers {
		add(i+1, tier.ACLs())
	}
	slices.SortStableFunc(out.ACLs, func(a, b intent.ACL) int {
		return cmp.Or(a.Tier-b.Tier, int(a.Priority)-int(b.Priority))
	})
}

// checkACL returns an error for a rule that compileACL cannot express.
func checkACL(v schema.ACLSetting) error {
	if !strings.EqualFold(v.Direction, string(intent.In)) && !strings.EqualFold(v.Direction, string(intent.Out)) {
		return fmt.Errorf("direction %q", v.Direction)
	}
	if !slices.ContainsFunc([]intent.Action{intent.Allow, intent.Block, intent.Pass},
		func(a intent.Action) bool { return strings.EqualFold(v.Action, string(a)) }) {
		return fmt.Errorf("action %q", v.Action)
	}
	if _, err := parseProtocols(v.Protocols); err != nil {
		return err
	}
	for _, ports := range []string{v.LocalPorts, v.RemotePorts} {
		if _, err := parsePorts(ports); err != nil {
			return err
		}
	}
	return nil
}

// compileACL returns false for a rule whose addresses are only empty sets: it
// matches no packet.
func compileACL(v schema.ACLSetting, sets map[string]string) (intent.ACL, bool) {
	out := intent.ACL{Direction: intent.Out, Action: intent.Pass, Priority: v.Priority}
	if strings.EqualFold(v.Direction, string(intent.In)) {
		out.Direction = intent.In
	}
	switch {
	case strings.EqualFold(v.Action, string(intent.Allow)):
		out.Action = intent.Allow
	case strings.EqualFold(v.Action, string(intent.Block)):
		out.Action = intent.Block
	}
	out.Protocols, _ = parseProtocols(v.Protocols)
	out.LocalPorts, _ = parsePorts(v.LocalPorts)
	out.RemotePorts, _ = parsePorts(v.RemotePorts)
	out.LocalAddresses = resolveAddresses(v.LocalAddresses, sets)
	out.RemoteAddresses = resolveAddresses(v.RemoteAddresses, sets)
	empty := func(text string, have []netip.Prefix) bool { return strings.TrimSpace(text) != "" && len(have) == 0 }
	return out, !empty(v.LocalAddresses, out.LocalAddresses) && !empty(v.RemoteAddresses, out.RemoteAddresses)
}

// maxSetDepth bounds sets that name sets (NESTEDIPSET), which may be circular.
const maxSetDepth = 4

// resolveAddresses reads a list of addresses, prefixes and names of sets.
func resolveAddresses(list string, sets map[string]string) []netip.Prefix {
	var out []netip.Prefix
	var add func(list string, depth int)
	add = func(list string, depth int) {
		for word := range strings.SplitSeq(list, ",") {
			word = strings.TrimSpace(word)
			if p, err := parsePrefix(word); err == nil {
				out = append(out, p)
			} else if values, ok := sets[word]; ok && depth < maxSetDepth {
				add(values, depth+1)
			}
		}
	}
	add(list, 0)
	return out
}

// parseProtocols reads a list of numbers. 256 is HNS's "any" in ACLs of other
// products and yields an empty list.
func parseProtocols(list string) ([]uint8, error) {
	var out []uint8
	for word := range strings.SplitSeq(list, ",") {
		if word = strings.TrimSpace(word); word == "" || word == "256" {
			continue
		}
		n, err := strconv.ParseUint(word, 10, 8)
		if err != nil {
			return nil, fmt.Errorf("protocol %q", word)
		}
		out = append(out, uint8(n))
	}
	return out, nil
}

// parsePorts reads "80,8080,1-5".
func parsePorts(list string) ([]intent.PortRange, error) {
	var out []intent.PortRange
	for word := range strings.SplitSeq(list, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		lo, hi, isRange := strings.Cut(word, "-")
		if !isRange {
			hi = lo
		}
		first, err1 := strconv.ParseUint(strings.TrimSpace(lo), 10, 16)
		last, err2 := strconv.ParseUint(strings.TrimSpace(hi), 10, 16)
		if err1 != nil || err2 != nil || last < first {
			return nil, fmt.Errorf("ports %q", word)
		}
		out = append(out, intent.PortRange{First: uint16(first), Last: uint16(last)})
	}
	return out, nil
}

// routesByEndpoint lists the SDN routes of each endpoint.
func routesByEndpoint(s *state) map[string][]schema.SDNRouteSetting {
	out := map[string][]schema.SDNRouteSetting{}
	for r := range s.routes.all {
		for _, id := range r.HostComputeEndpoints {
			out[id] = append(out[id], r.Setting...)
		}
	}
	return out
}

// compileLoadBalancer makes one value for each port mapping. One whose endpoints
// are all gone is left out: there is nowhere to send anything.
func compileLoadBalancer(s *state, lb *balancer, l limits) []intent.LoadBalancer {
	var out []intent.LoadBalancer
	vips := make([]netip.Addr, 0, len(lb.FrontendVIPs))
	ipv6 := lb.Flags&schema.LBIPv6 != 0
	for _, v := range lb.FrontendVIPs {
		if a, err := netip.ParseAddr(v); err == nil {
			vips = append(vips, a)
			ipv6 = a.Is6()
		}
	}
	backends := make([]intent.Backend, 0, len(lb.HostComputeEndpoints))
	for _, id := range lb.HostComputeEndpoints {
		e := s.endpoints.get(id)
		if e == nil {
			continue
		}
		for _, c := range e.IPConfigurations {
			if a, err := netip.ParseAddr(c.IPAddress); err == nil && a.Is6() == ipv6 {
				backends = append(backends, intent.Backend{Address: a, Local: !e.remote()})
				break
			}
		}
	}
	if len(backends) == 0 {
		return nil
	}
	source, _ := netip.ParseAddr(lb.SourceVIP)
	for i, m := range lb.PortMappings {
		v := intent.LoadBalancer{
			ID:             lb.ID,
			VIPs:           vips,
			SourceVIP:      source,
			Protocol:       uint8(m.Protocol),
			ExternalPort:   m.ExternalPort,
			InternalPort:   m.InternalPort,
			Backends:       backends,
			Distribution:   intent.Distribution(m.DistributionType),
			DSR:            lb.Flags&schema.DSR != 0,
			IPv6:           ipv6,
			ILB:            m.Flags&schema.LBILB != 0,
			LocalRoutedVIP: m.Flags&schema.LBLocalRoutedVIP != 0,
			UseMux:         m.Flags&schema.LBUseMux != 0,
			PreserveDIP:    m.Flags&schema.LBPreserveDIP != 0,
			VIPExternalIP:  m.Flags&schema.LBVIPExternalIP != 0,
		}
		if l.noAffinity {
			v.Distribution = 0
		}
		if i > 0 {
			v.ID = fmt.Sprintf("%s-%d", lb.ID, i)
		}
		out = append(out, v)
	}
	return out
}
