// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package kernel

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// AddProxy lets a link answer ARP, or neighbour discovery, for an address that is routed to another one. The namespace
// must forward packets (arp(7)).
func (s *Space) AddProxy(link netlink.Link, a netip.Addr) error {
	if err := s.Netlink.NeighSet(proxy(link, a)); err != nil {
		return fmt.Errorf("answer for %s on %s: %w", a, link.Attrs().Name, err)
	}
	return nil
}

// DeleteProxy undoes AddProxy; it is not an error if there is no proxy.
func (s *Space) DeleteProxy(link netlink.Link, a netip.Addr) error {
	if err := s.Netlink.NeighDel(proxy(link, a)); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("no longer answer for %s on %s: %w", a, link.Attrs().Name, err)
	}
	return nil
}

// Proxies lists the addresses that a link answers for.
func (s *Space) Proxies(link netlink.Link) ([]netip.Addr, error) {
	var all []netip.Addr
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		list, err := s.Netlink.NeighProxyList(link.Attrs().Index, family)
		if err != nil {
			return nil, fmt.Errorf("list proxies of %s: %w", link.Attrs().Name, err)
		}
		for _, n := range list {
			if a, ok := netip.AddrFromSlice(n.IP); ok {
				all = append(all, a.Unmap())
			}
		}
	}
	return all, nil
}

func proxy(link netlink.Link, a netip.Addr) *netlink.Neigh {
	n := &netlink.Neigh{
		LinkIndex: link.Attrs().Index, Family: netlink.FAMILY_V4, Flags: netlink.NTF_PROXY, IP: a.AsSlice(),
	}
	if a.Is6() {
		n.Family = netlink.FAMILY_V6
	}
	return n
}
