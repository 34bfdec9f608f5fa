// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric

import (
	"errors"
	"fmt"
	"net/netip"
)

// Second has the ranges of the second address family, IPv6. The zero value means that there is none.
//
// The machine has no address of it: hosts and pods reach each other in both families, and the machine in IPv4.
type Second struct {
	NodeNet, PodNet, ServiceNet netip.Prefix
}

// check refuses ranges that cannot work together.
func (s Second) check() error {
	if s == (Second{}) {
		return nil
	}
	ranges := []netip.Prefix{s.NodeNet, s.PodNet, s.ServiceNet}
	for i, r := range ranges {
		if !r.Addr().Is6() || r.Addr().Is4In6() || !r.Addr().IsPrivate() || r != r.Masked() || r.Bits() > 112 {
			return fmt.Errorf("range %s: not a unique local IPv6 range (RFC 4193) of 65536 addresses or more", r)
		}
		for _, other := range ranges[:i] {
			if r.Overlaps(other) {
				return fmt.Errorf("ranges %s and %s overlap", other, r)
			}
		}
	}
	return nil
}

// router returns the hosts' default gateway, the first address of their range, or the zero value.
func (s Second) router() netip.Prefix {
	if s == (Second{}) {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(s.NodeNet.Addr().Next(), s.NodeNet.Bits())
}

// checkHost refuses what is not a host's address in the second family.
func (p *Plan) checkHost(a netip.Prefix) error {
	switch {
	case !p.Router6.IsValid() && a.IsValid():
		return fmt.Errorf("address %s: the fabric has no IPv6", a)
	case !p.Router6.IsValid():
		return nil
	case !a.IsValid():
		return errors.New("no IPv6 address, which the fabric has")
	case a.Masked() != p.Second.NodeNet || a.Addr() == p.Router6.Addr() || a.Addr() == p.Second.NodeNet.Addr():
		return fmt.Errorf("address %s: not a host's address in %s", a, p.Second.NodeNet)
	}
	return nil
}
