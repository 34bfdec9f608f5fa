// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package config

import (
	"fmt"
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
)

// NodeCIDRs lists the networks of the nodes' own addresses, one for each family.
func (c Config) NodeCIDRs() []netip.Prefix { return ipv6.List(c.NodeCIDR, c.IPv6.NodeCIDR) }

// moveIPv6 moves settings from the names that they had in earlier versions.
func (c *Config) moveIPv6() {
	if s := c.Second; !s.IsZero() {
		c.IPv6, c.NodeMaskSizeIPv6, c.Second = s.Plan, s.NodeMaskSize, ipv6.Former{}
	}
	if lb := &c.LoadBalancer; lb.Second.IsValid() {
		lb.IPv6Pool, lb.Second = lb.Second, netip.Prefix{}
	}
}

// validateIPv6 refuses settings that kube-apiserver or kube-controller-manager would refuse, and IPv6 without IPv4 as
// the first family: Windows nodes don't support another order.
func (c Config) validateIPv6() error {
	if c.IPv6.IsZero() {
		return nil
	}
	for _, first := range []netip.Prefix{c.NodeCIDR, c.PodCIDR, c.ServiceCIDR} {
		if !first.Addr().Is4() {
			return fmt.Errorf("network %s: want one of IPv4, because ipv6 has those of IPv6", first)
		}
	}
	// kube-apiserver's limit is 20 bits of host part (kubernetes v1.36, cmd/kube-apiserver/app/options/validation.go).
	if bits := 128 - c.IPv6.ServiceCIDR.Bits(); bits < 4 || bits > 20 {
		return fmt.Errorf("ipv6.serviceCIDR %s: want a prefix length from 108 to 124", c.IPv6.ServiceCIDR)
	}
	if extra := c.NodeMaskSizeIPv6 - c.IPv6.PodCIDR.Bits(); extra < 0 || extra > 16 || c.NodeMaskSizeIPv6 > 128 {
		return fmt.Errorf("nodeMaskSizeIPv6 %d does not fit ipv6.podCIDR %s", c.NodeMaskSizeIPv6, c.IPv6.PodCIDR)
	}
	return c.IPv6.Validate()
}
