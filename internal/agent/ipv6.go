// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
)

// moveIPv6 moves settings from the names that they had in earlier versions.
func (c *Config) moveIPv6() {
	if n := &c.Node; n.SecondAddress.IsValid() {
		n.IPv6Address, n.SecondAddress = n.SecondAddress, netip.Addr{}
		c.Renamed = append(c.Renamed, "node.secondAddress is now node.ipv6Address")
	}
	if n := &c.Cluster; !n.Second.IsZero() {
		n.IPv6, n.Second = n.Second, ipv6.Plan{}
		c.Renamed = append(c.Renamed, "cluster.second is now cluster.ipv6")
	}
}

// dual reports whether the node belongs to a cluster with two address families.
func (c Config) dual() bool { return !c.Cluster.IPv6.IsZero() }

// validateIPv6 refuses an incomplete plan, and network modes that support only one
// family.
func (c Config) validateIPv6() error {
	own := c.Node.IPv6Address
	if !c.dual() {
		if own.IsValid() {
			return fmt.Errorf("node.ipv6Address %s: cluster.ipv6, with the cluster's networks of IPv6, is missing", own)
		}
		return nil
	}
	if err := c.Cluster.IPv6.Validate(); err != nil {
		return fmt.Errorf("cluster.%w", err)
	}
	if !ipv6.Is(own) || own.IsLinkLocalUnicast() || own.IsLoopback() || own.IsUnspecified() {
		return fmt.Errorf("node.ipv6Address is missing, or no IPv6 address that other nodes can reach")
	}
	if !c.Node.Address.Is4() {
		return fmt.Errorf("node.address %s: want IPv4 beside cluster.ipv6", c.Node.Address)
	}
	// An overlay of Windows has IPv4 only (kubernetes v1.36.3 pkg/proxy/winkernel/supported.go, DualStackCompatible),
	// and flannel's plugin delegates to win-bridge, which gives a pod one address.
	if c.Network.Mode != L2Bridge {
		return fmt.Errorf("cluster.ipv6: network.mode %s has one family; use %s", c.Network.Mode, L2Bridge)
	}
	return nil
}

// podRanges returns the ranges from which the node's pods get addresses: the node's ranges in the families that HNS
// supports.
func (a *Agent) podRanges(ctx context.Context) ([]netip.Prefix, error) {
	first := []netip.Prefix{a.node.PodCIDR}
	if !a.Config.dual() || !a.node.IPv6PodCIDR.IsValid() {
		return first, nil
	}
	v, err := hnsClient{a.HNS}.version(ctx)
	if err != nil {
		return nil, err
	}
	if !v.TwoFamilies() {
		return first, nil
	}
	return append(first, a.node.IPv6PodCIDR), nil
}
