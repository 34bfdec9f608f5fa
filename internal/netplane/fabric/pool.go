// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric

import (
	"fmt"
	"net/netip"
)

// CheckPool returns an error if the addresses of a range cannot be given to Services, because of the range itself or
// because the cluster uses them for something else.
func CheckPool(pool netip.Prefix, others ...netip.Prefix) error {
	a := pool.Addr()
	switch {
	case a.Is6() && (pool != pool.Masked() || a.Is4In6()):
		return fmt.Errorf("load balancer pool %s: not an IPv6 range, as fd00:10:90::/112", pool)
	case !a.Is6() && (!pool.IsValid() || pool != pool.Masked()):
		return fmt.Errorf("load balancer pool %s: not an IPv4 range, as 10.90.0.0/24", pool)
	case a.BitLen()-pool.Bits() > 16:
		return fmt.Errorf("load balancer pool %s: want 65536 addresses or fewer", pool)
	// Of IPv6, the first bytes are 0 in special addresses only (RFC 4291, section 2.5).
	case a.IsLoopback(), a.IsMulticast(), a.IsLinkLocalUnicast(), a.AsSlice()[0] == 0:
		return fmt.Errorf("load balancer pool %s: want addresses that can be routed", pool)
	}
	for _, r := range others {
		if r.Overlaps(pool) {
			return fmt.Errorf("load balancer pool %s: the cluster uses %s for something else; choose another range, "+
				"or none", pool, r)
		}
	}
	return nil
}
