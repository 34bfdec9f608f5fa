// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// subnet is a parsed schema.Subnet.
type subnet struct {
	prefix  netip.Prefix
	gateway netip.Addr // next hop of the default route
	vsid    uint32
	vlan    uint16
}

// subnets returns the subnets of a network. They were checked when it was stored.
func subnets(n *network) []subnet {
	var out []subnet
	for _, ipam := range n.Ipams {
		for _, s := range ipam.Subnets {
			p, err := parsePrefix(s.IPAddressPrefix)
			if err != nil {
				continue
			}
			sub := subnet{prefix: p}
			for _, r := range s.Routes {
				if dst, err := parsePrefix(r.DestinationPrefix); err == nil && dst.Bits() == 0 {
					sub.gateway, _ = netip.ParseAddr(r.NextHop)
					break
				}
			}
			if v, ok := setting[schema.IsolationSetting](s.Policies, schema.VSIDPolicy); ok {
				sub.vsid = v.IsolationID
			}
			if v, ok := setting[schema.IsolationSetting](s.Policies, schema.VLANPolicy); ok {
				sub.vlan = uint16(v.IsolationID)
			}
			out = append(out, sub)
		}
	}
	return out
}

// usedAddresses returns the addresses of the endpoints of a network; local is
// whether a local endpoint has it.
func usedAddresses(s *state, networkID string) map[netip.Addr]bool {
	used := map[netip.Addr]bool{}
	for e := range s.endpoints.all {
		if e.HostComputeNetwork == networkID {
			for _, c := range e.IPConfigurations {
				if a, err := netip.ParseAddr(c.IPAddress); err == nil {
					used[a] = used[a] || !e.remote()
				}
			}
		}
	}
	return used
}

// reserved returns why a local endpoint cannot have the address, or "".
func reserved(sub subnet, a netip.Addr) string {
	switch {
	case !sub.prefix.Contains(a):
		return "outside the subnet"
	case sub.prefix.IsSingleIP():
		return ""
	case a == sub.prefix.Addr():
		return "the subnet's own address"
	case a == sub.gateway:
		return "the gateway's address"
	case a.Is4() && sub.prefix.Bits() < 31 && !sub.prefix.Contains(a.Next()):
		return "the broadcast address"
	}
	return ""
}

// maxScan bounds the search for a free address. A node's pod range has 256
// addresses; without a bound, the search in a full IPv6 /64 or IPv4 /8 would take
// forever.
const maxScan = 1 << 17

// allocate finds the lowest free address. On an L2Bridge the second address is
// left out: win-bridge takes it for the gateway of every pod
// (containernetworking/plugins v1.9.1, plugins/main/windows/win-bridge).
func allocate(s *state, n *network) (netip.Addr, subnet, error) {
	used := usedAddresses(s, n.ID)
	for _, sub := range subnets(n) {
		a := sub.prefix.Addr()
		for range maxScan {
			_, taken := used[a]
			second := n.Type == schema.L2Bridge && a == sub.prefix.Addr().Next().Next()
			if !taken && !second && reserved(sub, a) == "" {
				return a, sub, nil
			}
			if a = a.Next(); !sub.prefix.Contains(a) {
				break
			}
		}
	}
	return netip.Addr{}, subnet{}, hresult.Errorf(hresult.AddrInvalidOrReserved, "no address is free in network %s",
		n.Name)
}

// natPool is where a NAT or ICS network without a subnet gets one. Windows'
// default "nat" network is a /20 of 172.16.0.0/12 too.
func natPool(s *state) (netip.Prefix, error) {
	for second := byte(16); second < 32; second++ {
		for third := 0; third < 256; third += 16 {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{172, second, byte(third), 0}), 20)
			free := true
			s.networks.all(func(n *network) bool {
				for _, sub := range subnets(n) {
					free = free && !sub.prefix.Overlaps(p)
				}
				return free
			})
			if free {
				return p, nil
			}
		}
	}
	return netip.Prefix{}, hresult.Errorf(hresult.InvalidSubnet, "no subnet is free in 172.16.0.0/12")
}

// canonicalMAC returns the address as HNS writes it: upper-case pairs with dashes.
func canonicalMAC(s string) (string, error) {
	hw, err := net.ParseMAC(s)
	if err != nil || len(hw) != 6 {
		return "", fmt.Errorf("parse MAC address %q: want six pairs of digits", s)
	}
	return formatMAC(hw), nil
}

func formatMAC(hw net.HardwareAddr) string {
	return strings.ToUpper(strings.ReplaceAll(hw.String(), ":", "-"))
}

// windowsOUI is Microsoft's prefix for Hyper-V's own addresses, 00-15-5D.
const windowsOUI = 0x00155D

// newMAC generates an address that no endpoint has, from the network's pool if
// it has one.
func newMAC(s *state, n *network) (string, error) {
	used := map[string]bool{}
	s.endpoints.all(func(e *endpoint) bool { used[e.MacAddress] = true; return true })
	first, size := uint64(windowsOUI)<<24, uint64(1)<<24
	if len(n.MacPool.Ranges) > 0 {
		r := n.MacPool.Ranges[0]
		lo, err1 := macNumber(r.StartMacAddress)
		hi, err2 := macNumber(r.EndMacAddress)
		if err1 == nil && err2 == nil && hi >= lo {
			first, size = lo, hi-lo+1
		}
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	start := binary.BigEndian.Uint64(b[:]) % size
	for i := range min(size, maxScan) {
		binary.BigEndian.PutUint64(b[:], first+(start+i)%size)
		if mac := formatMAC(b[2:]); !used[mac] {
			return mac, nil
		}
	}
	return "", hresult.Errorf(hresult.InvalidEndpoint, "no MAC address is free in network %s", n.Name)
}

func macNumber(s string) (uint64, error) {
	hw, err := net.ParseMAC(s)
	if err != nil || len(hw) != 6 {
		return 0, fmt.Errorf("parse MAC address %q: want six pairs of digits", s)
	}
	return binary.BigEndian.Uint64(append([]byte{0, 0}, hw...)), nil
}
