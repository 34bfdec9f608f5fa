// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package ipv6 has the IPv6 plan of a cluster that has IPv6 beside IPv4 (`mullion up --ip-family dual`). The control
// plane, the hosts, their agents and the network between them have the plan in their configurations. IPv4 stays the
// first address family: Windows nodes don't support another order.
package ipv6

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Plan has the IPv6 networks of a cluster. The zero value means that the cluster has IPv4 only.
type Plan struct {
	// NodeCIDR is the network of the nodes' own addresses.
	NodeCIDR netip.Prefix `json:"nodeCIDR"`
	// PodCIDR is the range of all pods, ServiceCIDR the range of Services.
	PodCIDR     netip.Prefix `json:"podCIDR"`
	ServiceCIDR netip.Prefix `json:"serviceCIDR"`
}

// IsZero reports whether the cluster has IPv4 only.
func (p Plan) IsZero() bool { return p == Plan{} }

// Network is a network with its name in a configuration.
type Network struct {
	Name string
	CIDR netip.Prefix
}

// Networks lists the networks of the plan, if there is one.
func (p Plan) Networks() []Network {
	if p.IsZero() {
		return nil
	}
	return []Network{{"ipv6.nodeCIDR", p.NodeCIDR}, {"ipv6.podCIDR", p.PodCIDR}, {"ipv6.serviceCIDR", p.ServiceCIDR}}
}

// Validate returns an error if the plan is incomplete, or has a network of another family.
func (p Plan) Validate() error {
	for _, n := range p.Networks() {
		if !Is(n.CIDR.Addr()) {
			return fmt.Errorf("%s is missing, or not of IPv6", n.Name)
		}
	}
	return nil
}

// Is reports whether an address is of IPv6. An IPv4 address in the form of IPv6 is not.
func Is(a netip.Addr) bool { return a.Is6() && !a.Is4In6() }

// List lists an IPv4 and an IPv6 address or network, without the absent ones.
func List[T interface{ IsValid() bool }](v4, v6 T) []T {
	return slices.DeleteFunc([]T{v4, v6}, func(v T) bool { return !v.IsValid() })
}

// Join is List as text, as flags of Kubernetes' programs take it.
func Join[T interface {
	IsValid() bool
	fmt.Stringer
}](v4, v6 T) string {
	var list []string
	for _, v := range List(v4, v6) {
		list = append(list, v.String())
	}
	return strings.Join(list, ",")
}

// Former is the plan in documents of earlier versions, where it was called "second". It is read, and not written.
type Former struct {
	Plan
	// Address of a host, with the prefix length of its network. Its plan had no NodeCIDR.
	Address netip.Prefix `json:"address,omitzero"`
	// NodeMaskSize is the prefix length of each node's part of PodCIDR, for the control plane.
	NodeMaskSize int `json:"nodeMaskSize,omitempty"`
}
