// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package config

import (
	"fmt"
	"net/netip"
)

// Second has the networks of the second address family, IPv6. The zero value means that the cluster has one family.
type Second struct {
	NodeCIDR netip.Prefix `json:"nodeCIDR"`
	PodCIDR  netip.Prefix `json:"podCIDR"`
	// NodeMaskSize is the prefix length of each node's part of PodCIDR; 0 means 64, as kube-controller-manager has it.
	NodeMaskSize int          `json:"nodeMaskSize,omitempty"`
	ServiceCIDR  netip.Prefix `json:"serviceCIDR"`
}

// NodeCIDRs lists the networks of the nodes' own addresses, one for each family.
func (c Config) NodeCIDRs() []netip.Prefix { return c.withSecond(c.NodeCIDR, c.Second.NodeCIDR) }

// PodCIDRs lists the pods' networks, one for each family.
func (c Config) PodCIDRs() []netip.Prefix { return c.withSecond(c.PodCIDR, c.Second.PodCIDR) }

// ServiceCIDRs lists the Services' networks, one for each family.
func (c Config) ServiceCIDRs() []netip.Prefix {
	return c.withSecond(c.ServiceCIDR, c.Second.ServiceCIDR)
}

func (c Config) withSecond(first, second netip.Prefix) []netip.Prefix {
	if c.Second == (Second{}) {
		return []netip.Prefix{first}
	}
	return []netip.Prefix{first, second}
}

// validateSecond refuses what kube-apiserver or kube-controller-manager would refuse, and a second family without IPv4
// as the first: nodes of Windows have no other order.
func (c Config) validateSecond() error {
	s := c.Second
	if s == (Second{}) {
		return nil
	}
	nets := []struct {
		name          string
		first, second netip.Prefix
	}{
		{"nodeCIDR", c.NodeCIDR, s.NodeCIDR},
		{"podCIDR", c.PodCIDR, s.PodCIDR},
		{"serviceCIDR", c.ServiceCIDR, s.ServiceCIDR},
	}
	for i, n := range nets {
		if !n.first.Addr().Is4() {
			return fmt.Errorf("%s %s: want a network of IPv4, because second has those of IPv6", n.name, n.first)
		}
		if !n.second.IsValid() || !n.second.Addr().Is6() || n.second.Addr().Is4In6() || n.second.Masked() != n.second {
			return fmt.Errorf("second.%s %q: want a network of IPv6, as fd00:10:244::/48", n.name, n.second)
		}
		for _, m := range nets[:i] {
			if n.second.Overlaps(m.second) {
				return fmt.Errorf("second.%s %s overlaps second.%s %s", n.name, n.second, m.name, m.second)
			}
		}
	}
	// kube-apiserver's limit is 20 bits of host part (kubernetes v1.36, cmd/kube-apiserver/app/options/validation.go).
	if bits := 128 - s.ServiceCIDR.Bits(); bits < 4 || bits > 20 {
		return fmt.Errorf("second.serviceCIDR %s: want a prefix length from 108 to 124", s.ServiceCIDR)
	}
	if extra := s.NodeMaskSize - s.PodCIDR.Bits(); extra < 0 || extra > 16 || s.NodeMaskSize > 128 {
		return fmt.Errorf("second.nodeMaskSize %d does not fit second.podCIDR %s", s.NodeMaskSize, s.PodCIDR)
	}
	return nil
}
