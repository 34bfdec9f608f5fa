// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"fmt"
	"net/netip"
)

// Second has the cluster's networks of the second address family, IPv6. The zero value means that the cluster has one
// family.
type Second struct {
	PodCIDR     netip.Prefix `json:"podCIDR"`
	ServiceCIDR netip.Prefix `json:"serviceCIDR"`
	NodeCIDR    netip.Prefix `json:"nodeCIDR"`
}

// dual reports whether the node belongs to a cluster with two address families.
func (c Config) dual() bool { return c.Cluster.Second != (Second{}) }

// validateSecond refuses what is only a part of a family, and modes of the network that have one.
func (c Config) validateSecond() error {
	s, own := c.Cluster.Second, c.Node.SecondAddress
	if !c.dual() {
		if own.IsValid() {
			return fmt.Errorf("node.secondAddress %s: cluster.second, with the cluster's networks of IPv6, is missing",
				own)
		}
		return nil
	}
	for _, p := range []struct {
		name  string
		value netip.Prefix
	}{{"podCIDR", s.PodCIDR}, {"serviceCIDR", s.ServiceCIDR}, {"nodeCIDR", s.NodeCIDR}} {
		if !p.value.IsValid() || !p.value.Addr().Is6() || p.value.Addr().Is4In6() {
			return fmt.Errorf("cluster.second.%s is missing, or not of IPv6", p.name)
		}
	}
	if !own.Is6() || own.Is4In6() || own.IsLinkLocalUnicast() || own.IsLoopback() || own.IsUnspecified() {
		return fmt.Errorf("node.secondAddress is missing, or no IPv6 address that other nodes can reach")
	}
	if !c.Node.Address.Is4() {
		return fmt.Errorf("node.address %s: want IPv4 beside cluster.second", c.Node.Address)
	}
	// An overlay of Windows has IPv4 only (kubernetes v1.36.3 pkg/proxy/winkernel/supported.go, DualStackCompatible),
	// and flannel's plugin delegates to win-bridge, which gives a pod one address.
	if c.Network.Mode != L2Bridge {
		return fmt.Errorf("cluster.second: network.mode %s has one family; use %s", c.Network.Mode, L2Bridge)
	}
	return nil
}

// nodeIPs lists the node's addresses, as the kubelet's --node-ip takes them.
func (c Config) nodeIPs() string {
	if !c.dual() {
		return c.Node.Address.String()
	}
	return c.Node.Address.String() + "," + c.Node.SecondAddress.String()
}

// clusterPods lists the cluster's pod ranges, as kube-proxy's clusterCIDR takes them.
func (c Config) clusterPods() string {
	if !c.dual() {
		return c.Cluster.PodCIDR.String()
	}
	return c.Cluster.PodCIDR.String() + "," + c.Cluster.Second.PodCIDR.String()
}

// dual reports whether endpoints can have two address families (hnslib v0.1.2 hcn/hcnglobals.go,
// IPv6DualStackVersion; kube-proxy asks the same). Windows Server 2019 lacks it.
func (v hnsVersion) dual() bool { return v.Major == 11 && v.Minor >= 10 || v.Major > 11 }

// podRanges returns the ranges from which the node's pods get addresses: of its ranges, those of the families that HNS
// has.
func (a *Agent) podRanges(ctx context.Context) ([]netip.Prefix, error) {
	first := []netip.Prefix{a.node.PodCIDR}
	if !a.Config.dual() || !a.node.SecondPodCIDR.IsValid() {
		return first, nil
	}
	v, err := hnsClient{a.HNS}.version(ctx)
	if err != nil {
		return nil, err
	}
	if !v.dual() {
		return first, nil
	}
	return append(first, a.node.SecondPodCIDR), nil
}
