// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"

	"github.com/mullion-k8s/mullion/internal/cri/engine"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// podAdapter is Linux' name of a pod's first adapter.
const podAdapter = "eth0"

// writeNetwork writes the pod's network into the container's registry: Windows
// programs look for it there.
func (s *Server) writeNetwork(ctx context.Context, id string, sb store.Sandbox) error {
	n, err := describeNetwork(s.networkPath(sb))
	if err != nil {
		return fmt.Errorf("describe network of the pod: %w", err)
	}
	n.Servers, n.Suffix = sb.Config.GetDnsConfig().GetServers(), suffixOf(sb.Config.GetDnsConfig())
	if n.Index != 0 {
		endpoints, err := s.cfg.Namespaces.NamespaceStats(ctx, sb.NamespaceID)
		if err != nil {
			return fmt.Errorf("name the adapter of the pod: %w", err)
		}
		if len(endpoints) > 0 {
			n.Adapter = "vEthernet (" + endpoints[0].Name + ")" // the endpoint's name, as HNS does it
		}
	}
	root, err := os.OpenRoot(s.linuxRoot(id))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // opened for look-ups
	return s.cfg.Engine.WriteMachine(root, n)
}

// describeNetwork reads the first adapter of a network namespace. Without an
// adapter or a namespace there are no addresses.
func describeNetwork(netns string) (engine.Network, error) {
	var n engine.Network
	if netns == "" {
		return n, nil
	}
	space, err := kernel.Open(netns)
	if err != nil {
		return n, err
	}
	defer space.Close()
	link, err := space.FindLink(podAdapter)
	if err != nil || link == nil {
		return n, err
	}
	n.Index = link.Attrs().Index
	addresses, err := kernel.List(func() ([]netlink.Addr, error) {
		return space.Netlink.AddrList(link, netlink.FAMILY_V4)
	})
	if err != nil {
		return n, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addresses {
		n.Addresses = append(n.Addresses, kernel.Prefix(a.IPNet))
	}
	routes, err := kernel.List(func() ([]netlink.Route, error) {
		return space.Netlink.RouteList(link, netlink.FAMILY_V4)
	})
	if err != nil {
		return n, fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if hop, ok := netip.AddrFromSlice(r.Gw); ok && kernel.Prefix(r.Dst).Bits() == 0 {
			n.Gateway = hop.Unmap()
		}
	}
	return n, nil
}
