// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// defaultMTU is Ethernet's, used when neither the endpoint nor its network nor the
// uplink sets one.
const defaultMTU = 1500

// MaxLinkName is IFNAMSIZ of linux/if.h less the terminating NUL.
const MaxLinkName = 15

// endpointSource holds the inputs of an endpoint's fragment.
type endpointSource struct {
	endpoint intent.Endpoint
	network  intent.NetworkType
	// beside are the addresses of the namespace's other endpoints: its programs
	// may answer for one by the link of another.
	beside []netip.Prefix
	// preserved are the front ends that its addresses see as destinations.
	preserved map[netip.Addr][]preserved
}

// LinkName returns the name of the host's end of an endpoint's veth pair (and of the
// device of a network, by its ID): the prefix and twelve digits of a hash of the
// ID, so that a new process finds the links of an old one.
func LinkName(endpointID string) string {
	sum := sha256.Sum256([]byte(strings.ToLower(endpointID)))
	return (LinkPrefix + hex.EncodeToString(sum[:]))[:MaxLinkName]
}

// IsEndpoint reports whether a link's alias belongs to an endpoint.
func IsEndpoint(alias string) bool { return strings.HasPrefix(alias, kindEndpoint+" ") }

func (c *compiler) endpoints() error {
	inNamespace := map[string]int{}
	addresses := map[string][]netip.Prefix{}
	for i := range c.want.Endpoints {
		if e := &c.want.Endpoints[i]; e.Attached() {
			addresses[e.NamespaceID] = append(addresses[e.NamespaceID], c.addresses(e)...)
		}
	}
	for i := range c.want.Endpoints {
		e := &c.want.Endpoints[i]
		if e.Remote { // most endpoints of a large cluster
			continue
		}
		object := objectKey{kindEndpoint, e.ID}.String()
		if err := c.claim(object, "endpoint id "+e.ID); err != nil {
			return err
		}
		switch {
		case e.HostAttached:
			if err := c.hostEndpoint(e, object); err != nil {
				return err
			}
		case e.Attached():
			index := inNamespace[e.NamespaceID]
			inNamespace[e.NamespaceID]++
			if err := c.attachedEndpoint(e, object, index, addresses[e.NamespaceID]); err != nil {
				return err
			}
		}
	}
	return nil
}

// hostEndpoint puts the endpoint's addresses on a device of the host.
func (c *compiler) hostEndpoint(e *intent.Endpoint, object string) error {
	mac, err := canonicalMAC(e.MAC)
	if err != nil {
		return fmt.Errorf("%s: %w", object, err)
	}
	l := Link{Name: LinkName(e.ID), Kind: Bridge, MTU: c.mtu(e), MAC: mac, Alias: object}
	for _, a := range c.addresses(e) {
		if !usable(a.Addr()) {
			return fmt.Errorf("%s: address %s: not usable for an endpoint", object, a.Addr())
		}
		if err := c.claim(object, "address "+a.Addr().String()); err != nil {
			return err
		}
		c.held = append(c.held, a.Addr())
		if a.Addr() != c.nodeLike(a.Addr()) { // a service's backend may be the node itself
			l.Addresses = append(l.Addresses, a)
		}
	}
	if len(c.families) > 1 {
		l.Sysctls = c.ipv6Sysctls(l.Name)
	}
	c.plan.Links = append(c.plan.Links, l)
	return c.claim(object, "link "+l.Name)
}

// attachedEndpoint makes the veth pair of an endpoint in a namespace, its
// route, and its part of the table.
func (c *compiler) attachedEndpoint(e *intent.Endpoint, object string, index int, all []netip.Prefix) error {
	mac, err := canonicalMAC(e.MAC)
	if err != nil {
		return fmt.Errorf("%s: %w", object, err)
	}
	name := LinkName(e.ID)
	if err := c.claim(object, "link "+name); err != nil {
		return err
	}
	l := Link{
		Name: name, Kind: Veth, MTU: c.mtu(e), Alias: object,
		Sysctls: append([]Sysctl{
			// Answer ARP for every address that is routed elsewhere, at once: the
			// default delay of up to 0.8 s is meant for networks with several
			// proxies (arp(7), proxy_delay).
			{"net/ipv4/conf/" + name + "/proxy_arp", "1"},
			{"net/ipv4/neigh/" + name + "/proxy_delay", "0"},
			{"net/ipv4/conf/" + name + "/send_redirects", "0"},
			{"net/ipv4/conf/" + name + "/rp_filter", "0"},
		}, c.ipv6Sysctls(name)...),
		Peer: &Peer{NamespaceID: e.NamespaceID, Name: "eth" + strconv.Itoa(index), MAC: mac},
	}
	for _, a := range c.addresses(e) {
		if !usable(a.Addr()) {
			return fmt.Errorf("%s: address %s: not usable for an endpoint", object, a.Addr())
		}
		if a.Addr() == c.nodeLike(a.Addr()) {
			return &ConflictError{Object: object, Other: "the host's uplink", What: "address " + a.Addr().String()}
		}
		if err := c.claim(object, "address "+a.Addr().String()); err != nil {
			return err
		}
		c.held = append(c.held, a.Addr())
		l.Peer.Addresses = append(l.Peer.Addresses, a)
		l.Neighbours = append(l.Neighbours, Neighbour{a.Addr(), mac})
		c.plan.Routes = append(c.plan.Routes, Route{
			Destination: netip.PrefixFrom(a.Addr(), a.Addr().BitLen()), Link: name, Source: c.nodeLike(a.Addr()),
		})
	}
	l.Peer.Routes = c.peerRoutes(e, l.Peer.Name, index)
	l.Peer.HostIs = hopsOf(ipv6(), l.Peer.Routes)
	l.Peer.Bucket, l.Peer.Redirects = bucket(e.MaxRate, l.MTU), redirects(e)
	l.accept(c.preservedFor(e))
	c.plan.Links = append(c.plan.Links, l)

	for _, m := range e.PortMappings {
		if err := checkPortMapping(m); err != nil {
			return fmt.Errorf("%s: %w", object, err)
		}
		var vips []netip.Addr
		if m.VIP.IsValid() {
			vips = []netip.Addr{m.VIP}
		}
		if err := c.claimFronts(objectKey{kindEndpoint, e.ID}, vips, m.IPv6, m.Protocol, m.ExternalPort); err != nil {
			return err
		}
	}
	own := c.addresses(e)
	beside := slices.DeleteFunc(slices.Clone(all), func(p netip.Prefix) bool { return slices.Contains(own, p) })
	c.endpointFragment(e, name, mac, beside)
	return nil
}

func checkPortMapping(m intent.PortMapping) error {
	if !hasPorts(m.Protocol) || m.ExternalPort == 0 || m.InternalPort == 0 {
		return fmt.Errorf("port mapping %d to %d, protocol %d: not a usable mapping", m.ExternalPort, m.InternalPort,
			m.Protocol)
	}
	return nil
}

// endpointFragment makes the elements of an attached endpoint.
func (c *compiler) endpointFragment(e *intent.Endpoint, link, mac string, beside []netip.Prefix) {
	name := objectKey{kindEndpoint, e.ID}
	source := endpointSource{endpoint: *e, beside: beside, preserved: c.preservedFor(e)}
	if n := c.networks[e.NetworkID]; n != nil {
		source.network = n.Type
	}
	if f := c.previous.Table.fragments[name]; f != nil && reflect.DeepEqual(f.source, source) {
		c.plan.Table.fragments[name] = f
		return
	}
	f := &fragment{source: source}
	c.plan.Table.fragments[name] = f
	for _, fam := range c.families {
		c.endpointElements(f, e, fam, source, `"`+link+`" . `+mac+" . ")
		for _, a := range c.addresses(e) {
			if fam.has(a.Addr()) {
				f.elements = append(f.elements,
					preservedElements(fam, link, a.Addr(), source.preserved[a.Addr()])...)
			}
		}
	}
	for _, m := range e.PortMappings {
		p := portRule{
			protocol: m.Protocol, external: m.ExternalPort, internal: m.InternalPort, everywhere: m.LocalRouted,
			draw: draw{distribution: intent.FiveTuple}, family: familyFor(m.IPv6),
		}
		if m.VIP.IsValid() {
			p.vips = []netip.Addr{m.VIP}
		}
		if i := slices.IndexFunc(e.Addresses, func(a netip.Prefix) bool { return p.family.has(a.Addr()) }); i >= 0 {
			p.backends = []netip.Addr{e.Addresses[i].Addr()}
		}
		c.emit(f, &p)
	}
}

// endpointElements makes the elements of one family. sender is the beginning of the keys of
// permitted senders.
func (c *compiler) endpointElements(f *fragment, e *intent.Endpoint, fam family, source endpointSource,
	sender string) {
	outbound := c.outboundChain(e, source.network, fam)
	if outbound != nil {
		f.chains = append(f.chains, *outbound)
	}
	in, out := aclChains(e, intent.In, fam), aclChains(e, intent.Out, fam)
	f.chains = append(append(f.chains, in...), out...)
	for _, prefix := range source.beside {
		if fam.has(prefix.Addr()) {
			f.elements = append(f.elements, Element{fam.set(setEndpoints), sender + prefix.Addr().String(), ""})
		}
	}
	for _, prefix := range c.addresses(e) {
		if !fam.has(prefix.Addr()) {
			continue
		}
		a := prefix.Addr().String()
		f.elements = append(f.elements,
			Element{fam.set(setEndpoints), sender + a, ""},
			Element{fam.set(setLocal), a, ""},
			Element{fam.set(setHairpin), a + " . " + a, ""})
		if outbound != nil {
			f.elements = append(f.elements, Element{fam.set(mapOutbound), a, "goto " + outbound.Name})
		}
		if n := len(in); n > 0 {
			f.elements = append(f.elements, Element{fam.set(mapACLIn), a, "jump " + in[n-1].Name})
		}
		if n := len(out); n > 0 {
			f.elements = append(f.elements, Element{fam.set(mapACLOut), a, "jump " + out[n-1].Name})
		}
	}
}

// outboundChain rewrites the source of packets that leave the host, or is nil if
// the endpoint's policies require no rule. Endpoints with the same policies share a
// chain: it is named after its rules.
//
// Only TCP and UDP are rewritten, as on Windows, where a pod cannot ping the
// internet (https://learn.microsoft.com/virtualization/windowscontainers/kubernetes/common-problems, read 2026-11).
func (c *compiler) outboundChain(e *intent.Endpoint, network intent.NetworkType, f family) *Chain {
	policies := slices.DeleteFunc(slices.Clone(e.OutboundNAT),
		func(p intent.OutboundNAT) bool { return familyFor(p.IPv6) != f })
	if len(policies) == 0 && (network == intent.NAT || network == intent.ICS) {
		// Such a network rewrites everything, ICMP too.
		rules := []string{"oifname " + ours + " return", f.sourceTo(f.node(c.want.Uplink))}
		return &Chain{Name: hashName("outbound"+f.suffix, rules), Rules: rules}
	}
	if len(policies) == 0 {
		return nil
	}
	// An exception holds for all policies that are about every destination: with flannel, win-overlay and win-bridge
	// add one that excepts little to the one of the configuration (containernetworking/plugins v1.9.1,
	// pkg/hns/netconf_windows.go, ApplyOutboundNatPolicy). Pods of different nodes still see each other's addresses.
	var exceptions []netip.Prefix
	for _, p := range policies {
		if len(p.Destinations) == 0 {
			exceptions = append(exceptions, p.Exceptions...)
		}
	}
	rules := []string{"oifname " + ours + " return"}
	for _, p := range policies {
		if len(p.Destinations) == 0 {
			p.Exceptions = exceptions
		}
		var match string
		if len(p.Destinations) > 0 {
			to := f.mergePrefixes(p.Destinations)
			if len(to) == 0 {
				continue // all of them of the other family
			}
			match += f.word + " daddr { " + join(to) + " } "
		}
		if except := f.mergePrefixes(p.Exceptions); len(except) > 0 {
			match += f.word + " daddr != { " + join(except) + " } "
		}
		to := f.node(c.want.Uplink)
		if f.usable(p.VirtualIP) {
			to = p.VirtualIP
		}
		rule := match + "meta l4proto { tcp, udp } " + f.sourceTo(to)
		if !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
	}
	return &Chain{Name: hashName("outbound"+f.suffix, rules), Rules: rules}
}

// gateways makes one device per network that holds the gateway addresses: the
// one of the subnet, and the first two of the range, because win-bridge always
// uses the second as the endpoints' gateway (containernetworking/plugins v1.9.1,
// plugins/main/windows/win-bridge, and hns.GetDefaultDestinationPrefix). win-overlay uses
// the network's gateway, and the second address is often kube-proxy's source VIP. An
// address that an endpoint has is left to the endpoint.
func (c *compiler) gateways() {
	seen := map[netip.Prefix]bool{}
	for i := range c.want.Networks {
		n := &c.want.Networks[i]
		if c.onNodeNetwork(n) {
			continue
		}
		l := Link{Name: LinkName(n.ID), Kind: Bridge, MTU: networkMTU(n), Alias: "network " + n.ID}
		var candidates []netip.Addr
		for _, s := range n.Subnets {
			f, known := c.familyOf(s.Prefix.Addr())
			if !s.Prefix.IsValid() || !known || s.Prefix.Bits() == 0 {
				continue
			}
			p := s.Prefix.Masked()
			if !seen[p] {
				seen[p] = true
				// Without this, a packet to an address that no endpoint has would be
				// sent to the router, which sends it back.
				c.plan.Routes = append(c.plan.Routes, Route{Destination: p})
			}
			if n.Type == intent.Private {
				continue // no host in it
			}
			if p.Bits() < p.Addr().BitLen()-1 && n.Type != intent.Overlay {
				first := p.Addr().Next()
				candidates = append(candidates, first, first.Next())
			}
			if f.usable(s.Gateway) && p.Contains(s.Gateway) {
				candidates = append(candidates, s.Gateway)
			}
		}
		for _, a := range candidates {
			if usable(a) && !slices.Contains(c.held, a) && a != c.nodeLike(a) {
				c.held = append(c.held, a)
				l.Addresses = append(l.Addresses, netip.PrefixFrom(a, a.BitLen()))
			}
		}
		if len(l.Addresses) > 0 {
			if len(c.families) > 1 {
				l.Sysctls = c.ipv6Sysctls(l.Name)
			}
			c.plan.Links = append(c.plan.Links, l)
		}
	}
}

// peerRoutes returns the routes inside the endpoint's namespace. The routes of a
// further endpoint of the namespace give way to the first endpoint's.
//
// In IPv6 every next hop is on the link although no prefix covers it: the namespace
// has no route to the endpoint's prefix, because Linux answers for single
// neighbours only in the place of others, not for a prefix as with ARP.
func (c *compiler) peerRoutes(e *intent.Endpoint, link string, metric int) []Route {
	onLink := func(hop netip.Addr) bool {
		return !hop.Is4() || !slices.ContainsFunc(e.Addresses, func(p netip.Prefix) bool { return p.Contains(hop) })
	}
	var routes []Route
	for _, gateway := range []netip.Addr{e.Gateway, e.Gateway6} {
		if f, ok := c.familyOf(gateway); ok && !gateway.IsUnspecified() {
			routes = append(routes, Route{
				Destination: f.all(),
				Link:        link,
				NextHop:     gateway,
				OnLink:      onLink(gateway),
				Metric:      metric,
			})
		}
	}
	for _, r := range e.Routes {
		f, ok := c.familyOf(r.Destination.Addr())
		if !ok || !r.Destination.IsValid() || (r.Destination.Bits() == 0 && len(hopsOf(f, routes)) > 0) {
			continue
		}
		route := Route{Destination: r.Destination.Masked(), Link: link, Metric: metric}
		if f.has(r.NextHop) && !r.NextHop.IsUnspecified() {
			route.NextHop, route.OnLink = r.NextHop, onLink(r.NextHop)
		}
		if !slices.ContainsFunc(routes, func(o Route) bool { return o.Destination == route.Destination }) {
			routes = append(routes, route)
		}
	}
	return routes
}

// hopsOf lists the next hops of a family, each once.
func hopsOf(f family, routes []Route) []netip.Addr {
	var list []netip.Addr
	for _, r := range routes {
		if f.has(r.NextHop) {
			list = addSorted(list, r.NextHop)
		}
	}
	return list
}

func (c *compiler) mtu(e *intent.Endpoint) int {
	if n := c.networks[e.NetworkID]; n != nil {
		return cmp.Or(e.MTU, networkMTU(n))
	}
	return cmp.Or(e.MTU, defaultMTU)
}

// canonicalMAC returns the form that nft and netlink print.
func canonicalMAC(s string) (string, error) {
	m, err := net.ParseMAC(s)
	if err != nil {
		return "", fmt.Errorf("parse MAC address: %w", err)
	}
	if len(m) != 6 || m[0]&1 != 0 {
		return "", fmt.Errorf("MAC address %s: not the address of one Ethernet device", s)
	}
	return m.String(), nil
}
