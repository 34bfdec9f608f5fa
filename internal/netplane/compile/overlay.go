// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

const (
	// defaultTunnelPort is VXLAN's (RFC 7348, section 8).
	defaultTunnelPort = 4789
	// tunnelOverhead is the number of bytes that VXLAN over IPv4 adds: IPv4, UDP, VXLAN, the inner Ethernet header.
	tunnelOverhead = 20 + 8 + 8 + 14
	tunnels        = `"` + TunnelPrefix + `*"`
)

// tunnel is one VXLAN device: a VSID of an Overlay network.
type tunnel struct {
	link    string
	port    uint16
	subnets []netip.Prefix // of this host
}

// tunnelName returns the name of the device of a VSID. A namespace has one device at most for each.
func tunnelName(vsid uint32) string { return TunnelPrefix + strconv.FormatUint(uint64(vsid), 10) }

// overlays makes the tunnels of the Overlay networks and the routes to the other hosts' ranges.
func (c *compiler) overlays() error {
	if !usable4(c.nodeAddress()) {
		return nil // no address to send from
	}
	own := map[netip.Prefix]bool{}
	for _, n := range c.want.Networks {
		for _, s := range n.Subnets {
			own[s.Prefix.Masked()] = true
		}
	}
	for i := range c.want.Networks {
		n := &c.want.Networks[i]
		if n.Type != intent.Overlay {
			continue
		}
		for _, vsid := range vsids(n) {
			if err := c.tunnel(n, vsid, own); err != nil {
				return fmt.Errorf("network %s: VSID %d: %w", n.ID, vsid, err)
			}
		}
	}
	c.peerFragment()
	return nil
}

// vsids lists the VSIDs of a network, each once. A subnet without one is on this host only.
func vsids(n *intent.Network) []uint32 {
	var list []uint32
	for _, s := range n.Subnets {
		list = append(list, s.VSID)
	}
	for _, r := range n.RemoteSubnets {
		list = append(list, r.VSID)
	}
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(v uint32) bool { return v == 0 })
}

// tunnel makes the device of a VSID as flannel makes its own on Linux (flannel v0.28.10, pkg/backend/vxlan):
// it does not learn; all peers are static entries. It has no address, because a Windows node does not reach
// pods of other nodes through an overlay either.
func (c *compiler) tunnel(n *intent.Network, vsid uint32, own map[netip.Prefix]bool) error {
	object := "network " + n.ID
	if vsid >= 1<<24 {
		return errors.New("a VXLAN identifier has 24 bits")
	}
	mac, err := canonicalMAC(n.DRMAC)
	if err != nil {
		return fmt.Errorf("distributed router: %w", err)
	}
	name := tunnelName(vsid)
	if err := c.claim(object, "link "+name); err != nil {
		return err
	}
	t := tunnel{link: name, port: cmp.Or(n.VXLANPort, defaultTunnelPort)}
	for _, s := range n.Subnets {
		if s.VSID == vsid && s.Prefix.IsValid() && s.Prefix.Addr().Is4() {
			t.subnets = append(t.subnets, s.Prefix.Masked())
		}
	}
	c.tunnels = append(c.tunnels, t)
	l := Link{
		Name: name, Kind: VXLAN, MTU: networkMTU(n), MAC: mac, Alias: object,
		Tunnel: &Tunnel{ID: vsid, Local: c.nodeAddress(), Port: t.port},
		Sysctls: []Sysctl{
			{"net/ipv4/conf/" + name + "/send_redirects", "0"},
			{"net/ipv4/conf/" + name + "/rp_filter", "0"},
			{"net/ipv6/conf/" + name + "/disable_ipv6", "1"},
		},
	}
	for _, r := range n.RemoteSubnets {
		if r.VSID != vsid {
			continue
		}
		if own[r.Prefix.Masked()] {
			return &ConflictError{Object: object, Other: "a subnet of this host", What: "route to " + r.Prefix.String()}
		}
		if err := c.remoteSubnet(&l, object, r); err != nil {
			return fmt.Errorf("remote subnet %s: %w", r.Prefix, err)
		}
	}
	c.plan.Links = append(c.plan.Links, l)
	return nil
}

// remoteSubnet makes the route to a range, the neighbour that is its next hop, and the forwarding entry of
// that neighbour's MAC address.
func (c *compiler) remoteSubnet(l *Link, object string, r intent.RemoteSubnet) error {
	mac, err := canonicalMAC(r.DRMAC)
	if err != nil {
		return fmt.Errorf("distributed router: %w", err)
	}
	p := r.Prefix.Masked()
	if !p.IsValid() || !usable4(p.Addr()) || p.Bits() == 0 || p.Overlaps(c.want.Uplink.Address.Masked()) {
		return errors.New("not a range of pods")
	}
	if !usable4(r.ProviderAddress) || r.ProviderAddress == c.nodeAddress() {
		return fmt.Errorf("provider address %s: not another host's", r.ProviderAddress)
	}
	what := "route to " + p.String()
	if p.IsSingleIP() {
		what = "address " + p.Addr().String()
	}
	if err := c.claim(object, what); err != nil {
		return err
	}
	forward := Forward{MAC: mac, To: r.ProviderAddress}
	i := slices.IndexFunc(l.Forwards, func(f Forward) bool { return f.MAC == mac })
	switch {
	case i < 0:
		l.Forwards = append(l.Forwards, forward)
	case l.Forwards[i] != forward:
		other := "the host " + l.Forwards[i].To.String()
		return &ConflictError{Object: object, Other: other, What: "MAC address " + mac}
	}
	l.Neighbours = append(l.Neighbours, Neighbour{p.Addr(), mac})
	c.plan.Routes = append(c.plan.Routes, Route{Destination: p, Link: l.Name, NextHop: p.Addr(), OnLink: true})
	if c.peers == nil {
		c.peers = map[netip.Addr][]string{}
	}
	c.peers[r.ProviderAddress] = append(c.peers[r.ProviderAddress], innerMatch(l.Tunnel.ID, p)+" accept")
	return nil
}

// innerMatch matches an outer UDP packet by its inner packet: the VXLAN identifier, IPv4, and a source address in
// the prefix. nft has no words for the inner packet before version 1.0.8, so the fields are named by their offset,
// in bits, from the UDP header: 64 bits of UDP, 64 of VXLAN (RFC 7348, section 5), 112 of Ethernet, then IPv4.
func innerMatch(vsid uint32, source netip.Prefix) string {
	const (
		vni       = 64 + 32
		etherType = 64 + 64 + 96
		saddr     = 64 + 64 + 112 + 96
	)
	b := source.Addr().As4()
	address := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	return fmt.Sprintf("@th,%d,24 0x%x @th,%d,16 0x800 @th,%d,32 & 0x%x == 0x%x", vni, vsid, etherType, saddr,
		^uint32(0)<<(32-source.Bits()), address)
}

// peerFragment makes the list of the hosts that may send through a tunnel, each with the addresses
// that it may send from.
func (c *compiler) peerFragment() {
	if len(c.peers) == 0 {
		return
	}
	f := &fragment{}
	for _, peer := range slices.SortedFunc(maps.Keys(c.peers), netip.Addr.Compare) {
		rules := append(c.peers[peer], "counter drop")
		chain := Chain{Name: hashName("peer", rules), Rules: rules}
		f.chains = append(f.chains, chain)
		f.elements = append(f.elements, Element{mapPeers, peer.String(), "goto " + chain.Name})
	}
	c.plan.Table.fragments[objectKey{kind: kindPeers}] = f
}

// tunnelPorts returns the UDP ports of the tunnels as nft reads them.
func (c *compiler) tunnelPorts() string {
	var ports []uint16
	for _, t := range c.tunnels {
		ports = append(ports, t.port)
	}
	slices.Sort(ports)
	var list []string
	for _, p := range slices.Compact(ports) {
		list = append(list, strconv.Itoa(int(p)))
	}
	return oneOf(list)
}

// oneOf returns nft's text for a value or a set of values: a comparison is quicker than a look-up.
func oneOf(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return "{ " + strings.Join(list, ", ") + " }"
}

// guardTunnels isolates an overlay in the base chains: a VXLAN port takes packets from every sender, with any address
// inside. So
//   - only the other hosts of the overlay may send to the port, each with the addresses of its own range inside,
//   - no packet is forwarded to such a port of another host, as a pod or a service with that port could want,
//   - no packet passes through a tunnel unless it is from or to this host's part of the overlay; that
//     a node's own programs reach pods of other nodes by load balancers only is as on Windows,
//   - no address of the overlay leaves outside of the tunnel.
//
// The tunnels' own packets are not tracked: that would double the work for each packet. Each rule
// begins with the test that most packets fail. Names of links come last: to compare them takes longest.
func (c *compiler) guardTunnels(chains []Chain) []Chain {
	if len(c.tunnels) == 0 {
		return chains
	}
	port := "udp dport " + c.tunnelPorts()
	byName := chainsByName(chains)
	leaving := Chain{Name: "filter-postrouting", Type: "filter", Hook: "postrouting", Priority: "200"}
	raw := byName["raw-prerouting"]
	// Packets of endpoints have left the chain here. The chain "tunnel" checks the sender.
	raw.Rules = slices.Insert(raw.Rules, 1, port+" ip daddr "+c.nodeAddress().String()+" notrack accept")
	uplink := strconv.Quote(c.want.Uplink.Name)
	for _, t := range c.tunnels {
		in, out := "iifname "+strconv.Quote(t.link), "oifname "+strconv.Quote(t.link)
		own := ipv4().mergePrefixes(t.subnets)
		if len(own) == 0 { // only others have a subnet with this VSID
			raw.Rules = append(raw.Rules, in+" counter drop")
			leaving.Rules = append(leaving.Rules, out+" counter drop")
			continue
		}
		subnets := oneOf(strings.Split(join(own), ", "))
		raw.Rules = append(raw.Rules, "ip daddr != "+subnets+" "+in+" counter drop")
		leaving.Rules = append(leaving.Rules, "ip saddr != "+subnets+" "+out+" counter drop")
		if c.want.Uplink.Name != "" { // nft refuses an empty name
			leaving.Rules = append(leaving.Rules, "ip saddr "+subnets+" oifname "+uplink+" counter drop")
		}
	}
	var untracked []string
	if c.want.Uplink.Name != "" {
		untracked = []string{"oifname " + uplink + " " + port + " notrack"}
	}
	forward := byName["filter-forward"]
	forward.Rules = slices.Insert(forward.Rules, 0, port+" oifname != "+ours+" oifname != "+tunnels+" counter drop")
	input := byName["filter-input"]
	input.Rules = slices.Insert(input.Rules, 0, port+" goto tunnel")
	output := byName["filter-output"]
	output.Rules = slices.Insert(output.Rules, 0, "ct state untracked accept")
	return append(chains, leaving,
		Chain{Name: "raw-output", Type: "filter", Hook: "output", Priority: "-300", Rules: untracked},
		Chain{Name: "tunnel", Rules: []string{
			"ip saddr vmap @" + mapPeers,
			"counter drop",
		}})
}

// networkMTU returns the MTU of a network's links.
func networkMTU(n *intent.Network) int {
	if n.Type == intent.Overlay {
		return cmp.Or(n.MTU, defaultMTU-tunnelOverhead)
	}
	return cmp.Or(n.MTU, defaultMTU)
}
