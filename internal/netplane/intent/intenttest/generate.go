// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package intenttest makes intents for tests: large ones for benchmarks, and
// arbitrary ones, most of them sensible and some of them not, for property
// tests and fuzzing.
package intenttest

import (
	"fmt"
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// Dice turns fuzz data into choices. Once the data is used up every choice is
// the first one, so that short data make small intents.
type Dice struct{ data []byte }

// NewDice throws the given data.
func NewDice(data []byte) *Dice { return &Dice{data} }

// n returns a number from 0 to max-1, max at most 65536.
func (d *Dice) n(max int) int {
	n := 0
	for range 2 {
		if len(d.data) == 0 {
			return 0
		}
		n = n<<8 | int(d.data[0])
		d.data = d.data[1:]
		if max <= 256 {
			break
		}
	}
	return n % max
}

func (d *Dice) yes() bool { return d.n(4) == 1 }

func pick[T any](d *Dice, from ...T) T { return from[d.n(len(from))] }

func (d *Dice) address() netip.Addr {
	switch d.n(12) {
	case 10:
		return netip.AddrFrom16([16]byte{0xfd, 15: byte(d.n(8))})
	case 11:
		return pick(d, netip.Addr{}, netip.IPv4Unspecified(), netip.MustParseAddr("127.0.0.1"),
			netip.MustParseAddr("224.0.0.1"))
	}
	return netip.AddrFrom4([4]byte{10, pick[byte](d, 244, 96, 89), byte(d.n(3)), byte(d.n(12))})
}

func (d *Dice) prefix() netip.Prefix {
	a := d.address()
	if !a.IsValid() {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(a, min(a.BitLen(), pick(d, 24, 16, 32, 0, 8, 31, 64)))
}

func (d *Dice) prefixes() (list []netip.Prefix) {
	for range d.n(5) {
		list = append(list, d.prefix())
	}
	return list
}

func (d *Dice) port() uint16 { return pick(d, uint16(80), 53, 30080, 1, 65535, uint16(d.n(65536))) }

func (d *Dice) ports() (list []intent.PortRange) {
	for range d.n(4) {
		first := d.port()
		list = append(list, intent.PortRange{First: first, Last: pick(d, first, d.port())})
	}
	return list
}

func (d *Dice) protocol() uint8 { return pick(d, intent.TCP, intent.UDP, intent.SCTP, uint8(1), 0) }

// Host makes an intent. Change makes it into a similar one.
func (d *Dice) Host() intent.Host {
	h := intent.Host{Uplink: intent.Uplink{Name: "eth0", Address: netip.MustParsePrefix("10.89.0.11/24"),
		MAC: "02:6d:0a:59:00:0b"}}
	if d.yes() {
		h.Uplink = intent.Uplink{}
	} else if d.n(2) == 1 {
		h.Uplink.Address6 = netip.MustParsePrefix("fd00:89::11/64")
	}
	for i := range d.n(4) {
		n := intent.Network{
			ID:      fmt.Sprint("net-", i),
			Type:    pick(d, intent.L2Bridge, intent.NAT, intent.Private, intent.Overlay, intent.Transparent),
			MTU:     pick(d, 0, 1450),
			Subnets: []intent.Subnet{{Prefix: d.prefix(), Gateway: d.address()}},
		}
		if n.Type == intent.Overlay {
			d.overlay(&n, uint32(4096+i))
		}
		h.Networks = append(h.Networks, n)
	}
	for range d.n(8) {
		h.Endpoints = append(h.Endpoints, d.endpoint())
	}
	for range d.n(12) {
		h.LoadBalancers = append(h.LoadBalancers, d.loadBalancer())
	}
	for range d.n(5) {
		h.Routes = append(h.Routes, d.hostRoute())
	}
	return h
}

// overlay makes the network one that spans several hosts.
func (d *Dice) overlay(n *intent.Network, vsid uint32) {
	n.Subnets[0].VSID, n.DRMAC, n.VXLANPort = vsid, "00-15-5D-01-00-00", pick[uint16](d, 0, 4790)
	n.RemoteSubnets = d.remoteSubnets(vsid)
}

func (d *Dice) remoteSubnets(vsid uint32) (list []intent.RemoteSubnet) {
	for i := range d.n(4) {
		list = append(list, intent.RemoteSubnet{
			Prefix:          netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 245, byte(vsid) + byte(i)<<4, 0}), 24),
			VSID:            vsid,
			ProviderAddress: netip.AddrFrom4([4]byte{10, 89, 0, byte(20 + i)}),
			DRMAC:           fmt.Sprintf("00-15-5D-02-00-%02X", i),
		})
	}
	if d.n(16) == 1 {
		list = append(list, intent.RemoteSubnet{Prefix: d.prefix(), VSID: vsid, ProviderAddress: d.address(),
			DRMAC: "00-15-5D-02-00-00"})
	}
	return list
}

// Change adds, replaces and removes a few objects. The old intent stays intact.
func (d *Dice) Change(h intent.Host) intent.Host {
	h.Endpoints = change(d, h.Endpoints, d.endpoint)
	h.LoadBalancers = change(d, h.LoadBalancers, d.loadBalancer)
	h.Routes = change(d, h.Routes, d.hostRoute)
	h.Networks = append([]intent.Network(nil), h.Networks...)
	for i := range h.Networks {
		if n := &h.Networks[i]; n.Type == intent.Overlay && d.yes() {
			n.RemoteSubnets = d.remoteSubnets(n.Subnets[0].VSID)
		}
	}
	if d.n(8) == 1 {
		h.Uplink.Address = netip.MustParsePrefix("10.89.0.12/24")
	}
	if d.n(8) == 1 {
		h.Uplink.Address6 = pick(d, netip.Prefix{}, netip.MustParsePrefix("fd00:89::12/64"))
	}
	return h
}

func change[T any](d *Dice, list []T, fresh func() T) []T {
	list = append([]T(nil), list...)
	for range d.n(4) {
		switch i := d.n(len(list) + 1); {
		case i == len(list):
			list = append(list, fresh())
		case d.yes():
			list = append(list[:i], list[i+1:]...)
		default:
			list[i] = fresh()
		}
	}
	return list
}

// hostRoute makes a route of the host; some are to the same destination.
func (d *Dice) hostRoute() intent.HostRoute {
	return intent.HostRoute{
		Destination: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(d.n(4)), 0}), pick(d, 24, 0, 32)),
		NextHop:     pick(d, netip.MustParseAddr("10.89.0.12"), netip.MustParseAddr("192.168.199.123"), netip.Addr{}),
		Link:        pick(d, "eth0", "hnsgone"),
		Metric:      pick(d, 271, 15, 0),
	}
}

// endpoint makes an endpoint; its ID often equals another one's.
func (d *Dice) endpoint() intent.Endpoint {
	n := d.n(40)
	e := intent.Endpoint{
		ID:           fmt.Sprint("ep-", n),
		NetworkID:    fmt.Sprint("net-", d.n(4)),
		NamespaceID:  fmt.Sprint("ns-", n/2),
		Addresses:    []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, 1, byte(n + 2)}), 24)},
		MAC:          fmt.Sprintf("00-15-5D-00-00-%02X", n),
		Gateway:      pick(d, netip.MustParseAddr("10.244.1.2"), d.address()),
		MTU:          pick(d, 0, 1400),
		Remote:       d.yes(),
		HostAttached: d.n(8) == 1,
		MaxRate:      pick[uint64](d, 0, 1, 125_000),
	}
	if d.n(2) == 1 {
		e.Addresses = append(e.Addresses, netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 1, 15: byte(n + 2)}), 64))
		e.Gateway6 = pick(d, netip.AddrFrom16([16]byte{0xfd, 1, 15: 1}), d.address())
	}
	if d.n(16) == 1 {
		e.Addresses = d.prefixes()
	}
	for range d.n(3) {
		e.Routes = append(e.Routes, intent.Route{Destination: d.prefix(), NextHop: d.address()})
	}
	for range d.n(3) {
		e.OutboundNAT = append(e.OutboundNAT, intent.OutboundNAT{VirtualIP: pick(d, netip.Addr{}, d.address()),
			Exceptions: d.prefixes(), Destinations: d.prefixes(), IPv6: d.yes()})
	}
	for range d.n(2) {
		e.PortMappings = append(e.PortMappings, intent.PortMapping{
			Protocol:     pick(d, intent.TCP, intent.UDP),
			ExternalPort: uint16(8000 + n),
			InternalPort: d.port(),
			VIP:          pick(d, netip.Addr{}, d.address()),
			LocalRouted:  d.yes(),
		})
	}
	for range d.n(2) {
		e.Redirects = append(e.Redirects, intent.Redirect{
			Match:           intent.ACL{Direction: pick(d, intent.In, intent.Out), RemoteAddresses: d.prefixes()},
			Port:            d.port(),
			ExceptAddresses: d.prefixes(),
			ExceptPorts:     d.ports(),
			ExceptGroups:    []uint32{pick[uint32](d, 64000, 64018)},
		})
	}
	for range d.n(5) {
		e.ACLs = append(e.ACLs, intent.ACL{
			Direction:       pick(d, intent.In, intent.Out),
			Action:          pick(d, intent.Allow, intent.Block, intent.Pass),
			Tier:            d.n(3),
			Priority:        uint16(d.n(4)),
			LocalAddresses:  d.prefixes(),
			RemoteAddresses: d.prefixes(),
			LocalPorts:      d.ports(),
			RemotePorts:     d.ports(),
		})
		if d.yes() {
			e.ACLs[len(e.ACLs)-1].Protocols = []uint8{d.protocol(), d.protocol()}
		}
	}
	return e
}

// loadBalancer makes a load balancer; its ID and front end often equal another
// one's.
func (d *Dice) loadBalancer() intent.LoadBalancer {
	n := d.n(60)
	lb := intent.LoadBalancer{
		ID:             fmt.Sprint("lb-", n),
		Protocol:       pick(d, intent.TCP, intent.UDP, intent.SCTP),
		ExternalPort:   uint16(1 + n%7),
		InternalPort:   d.port(),
		Distribution:   pick(d, intent.FiveTuple, intent.SourceIPProtocol, intent.SourceIP),
		DSR:            d.yes(),
		LocalRoutedVIP: d.yes(),
		SourceVIP:      pick(d, netip.Addr{}, d.address()),
		PreserveDIP:    d.n(8) == 1,
		IPv6:           d.n(16) == 1,
	}
	if n%4 != 0 {
		lb.VIPs = []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, byte(n)})}
		if d.yes() {
			lb.VIPs = append(lb.VIPs, d.address())
		}
	}
	for range 1 + d.n(5) {
		lb.Backends = append(lb.Backends, intent.Backend{Address: d.address(), Local: d.yes()})
	}
	return lb
}

// Services makes a host with 30 pods and n services of TCP, each with the given
// number of backends, for benchmarks.
func Services(n, backends int) intent.Host {
	h := intent.Host{
		Uplink: intent.Uplink{Name: "eth0", Address: netip.MustParsePrefix("10.89.0.11/24"),
			MAC: "02:6d:0a:59:00:0b"},
		Networks: []intent.Network{{ID: "net", Type: intent.L2Bridge,
			Subnets: []intent.Subnet{{Prefix: netip.MustParsePrefix("10.244.1.0/24"),
				Gateway: netip.MustParseAddr("10.244.1.1")}}}},
	}
	for i := range 30 {
		a := netip.AddrFrom4([4]byte{10, 244, 1, byte(5 + i)})
		h.Endpoints = append(h.Endpoints, intent.Endpoint{
			ID:          fmt.Sprint("ep-", i),
			NetworkID:   "net",
			NamespaceID: fmt.Sprint("ns-", i),
			Addresses:   []netip.Prefix{netip.PrefixFrom(a, 24)},
			MAC:         fmt.Sprintf("00:15:5d:00:00:%02x", i),
			Gateway:     netip.MustParseAddr("10.244.1.2"),
			OutboundNAT: []intent.OutboundNAT{{Exceptions: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"),
				netip.MustParsePrefix("10.96.0.0/16")}}},
		})
	}
	for i := range n {
		h.LoadBalancers = append(h.LoadBalancers, Service(i, backends))
	}
	return h
}

// Service returns the i-th service of Services.
func Service(i, backends int) intent.LoadBalancer {
	lb := intent.LoadBalancer{
		ID: fmt.Sprint("lb-", i), VIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
		Protocol: intent.TCP, ExternalPort: 80, InternalPort: 8080,
	}
	for b := range backends {
		lb.Backends = append(lb.Backends,
			intent.Backend{Address: netip.AddrFrom4([4]byte{10, 244, byte(2 + b), byte(i)})})
	}
	return lb
}
