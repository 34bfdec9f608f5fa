// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"fmt"
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
)

// Second describes a host in the second address family, IPv6. The zero value means that its cluster has one family.
type Second struct {
	// Address of the host's adapter, with the prefix length of the network between the hosts.
	Address netip.Prefix `json:"address"`
	// PodCIDR and ServiceCIDR are the cluster's.
	PodCIDR     netip.Prefix `json:"podCIDR"`
	ServiceCIDR netip.Prefix `json:"serviceCIDR"`
}

// Validate refuses what is only a part of a family, or another family.
func (s Second) Validate() error {
	if s == (Second{}) {
		return nil
	}
	for _, p := range []struct {
		name  string
		value netip.Prefix
	}{{"address", s.Address}, {"podCIDR", s.PodCIDR}, {"serviceCIDR", s.ServiceCIDR}} {
		if !p.value.IsValid() || !p.value.Addr().Is6() || p.value.Addr().Is4In6() {
			return fmt.Errorf("second.%s is missing, or not of IPv6", p.name)
		}
	}
	if s.Address == s.Address.Masked() {
		return fmt.Errorf("second.address %s is not an address with the length of its network", s.Address)
	}
	return nil
}

// ranges returns the cluster's networks, as the fabric takes them.
func (s Second) ranges() fabric.Second {
	if s == (Second{}) {
		return fabric.Second{}
	}
	return fabric.Second{NodeNet: s.Address.Masked(), PodNet: s.PodCIDR, ServiceNet: s.ServiceCIDR}
}
