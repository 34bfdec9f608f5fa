// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/netplane/compile"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// newTunnel describes a VXLAN device to the kernel.
func newTunnel(attrs netlink.LinkAttrs, want *compile.Tunnel) *netlink.Vxlan {
	return &netlink.Vxlan{
		LinkAttrs: attrs,
		VxlanId:   int(want.ID),
		SrcAddr:   want.Local.AsSlice(),
		Port:      int(want.Port),
	}
}

// sameTunnel reports whether newTunnel would make the same link: its settings cannot be changed
// later.
func sameTunnel(link netlink.Link, want *compile.Link) bool {
	v, ok := link.(*netlink.Vxlan)
	if !ok {
		return false
	}
	local, _ := netip.AddrFromSlice(v.SrcAddr)
	return v.VxlanId == int(want.Tunnel.ID) && v.Port == int(want.Tunnel.Port) && !v.Learning &&
		local.Unmap() == want.Tunnel.Local && strings.EqualFold(v.HardwareAddr.String(), want.MAC)
}

// setForwards adds and corrects the device's forwarding entries.
func (p *Plane) setForwards(link netlink.Link, want []compile.Forward) error {
	for _, f := range want {
		mac, err := net.ParseMAC(f.MAC)
		if err != nil {
			return err
		}
		err = p.space.Netlink.NeighSet(&netlink.Neigh{
			LinkIndex:    link.Attrs().Index,
			Family:       unix.AF_BRIDGE,
			Flags:        netlink.NTF_SELF,
			State:        netlink.NUD_PERMANENT,
			IP:           f.To.AsSlice(),
			HardwareAddr: mac,
		})
		if err != nil {
			return fmt.Errorf("forward %s to %s: %w", f.MAC, f.To, err)
		}
	}
	return nil
}

// keepPeers removes the neighbours and forwarding entries of a VXLAN device that are not wanted.
func (p *Plane) keepPeers(link netlink.Link, want *compile.Link) error {
	for _, family := range []int{unix.AF_INET, unix.AF_BRIDGE} {
		have, err := kernel.List(func() ([]netlink.Neigh, error) {
			return p.space.Netlink.NeighList(link.Attrs().Index, family)
		})
		if err != nil {
			return fmt.Errorf("list neighbours of %s: %w", want.Name, err)
		}
		for _, n := range have {
			if n.LinkIndex != link.Attrs().Index || n.State&netlink.NUD_PERMANENT == 0 || wantedPeer(n, want) {
				continue
			}
			if err := p.space.Netlink.NeighDel(&n); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("delete neighbour %s of %s: %w", n.HardwareAddr, want.Name, err)
			}
		}
	}
	return nil
}

func wantedPeer(n netlink.Neigh, want *compile.Link) bool {
	a, _ := netip.AddrFromSlice(n.IP)
	mac := n.HardwareAddr.String()
	if n.Family == unix.AF_BRIDGE {
		return slices.Contains(want.Forwards, compile.Forward{MAC: mac, To: a.Unmap()})
	}
	return slices.Contains(want.Neighbours, compile.Neighbour{Address: a.Unmap(), MAC: mac})
}
