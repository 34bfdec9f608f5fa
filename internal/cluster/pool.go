// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
)

// noPool in place of ranges means that Services of type LoadBalancer get no addresses.
const noPool = "none"

// Pools returns the ranges with addresses for Services of type LoadBalancer, of one address family each, IPv4 first. A
// family that is not among them has no addresses.
func (c Config) Pools() ([]netip.Prefix, error) {
	n, v6 := c.Network(), c.Network().ipv6()
	switch {
	case c.LoadBalancerPool == noPool:
		return nil, nil
	case c.LoadBalancerPool == "" && c.dual():
		return []netip.Prefix{n.loadBalancers(), n.loadBalancers6()}, nil
	case c.LoadBalancerPool == "":
		return []netip.Prefix{n.loadBalancers()}, nil
	}
	pools, err := parsePools(c.LoadBalancerPool)
	if err != nil {
		return nil, err
	}
	for _, pool := range pools {
		if pool.Addr().Is6() && !c.dual() {
			return nil, fmt.Errorf("load balancer pool %s: the cluster has IPv4 only; 'mullion up --ip-family %s' "+
				"makes one that has IPv6, too", pool, dualStack)
		}
		if err := fabric.CheckPool(pool, n.nodes(), n.pods(), n.services(), v6.NodeCIDR, v6.PodCIDR,
			v6.ServiceCIDR); err != nil {
			return nil, err
		}
	}
	return pools, nil
}

// parsePools reads ranges of addresses for Services of type LoadBalancer, separated by commas.
func parsePools(s string) ([]netip.Prefix, error) {
	var pools []netip.Prefix
	for part := range strings.SplitSeq(s, ",") {
		pool, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("load balancer pool %q: want a range, as 10.90.0.0/24, or %s", part, noPool)
		}
		if err := fabric.CheckPool(pool); err != nil {
			return nil, err
		}
		for _, other := range pools {
			if other.Addr().Is4() == pool.Addr().Is4() {
				return nil, fmt.Errorf("load balancer pool %s: %s is of the same address family; give one range for "+
					"each family", pool, other)
			}
		}
		pools = append(pools, pool)
	}
	slices.SortFunc(pools, func(a, b netip.Prefix) int { return cmp.Compare(a.Addr().BitLen(), b.Addr().BitLen()) })
	return pools, nil
}

// PoolName writes pools as `mullion up` takes them.
func PoolName(pools []netip.Prefix) string {
	if len(pools) == 0 {
		return noPool
	}
	var names []string
	for _, p := range pools {
		names = append(names, p.String())
	}
	return strings.Join(names, ",")
}

// byFamily separates the IPv4 pool from the IPv6 pool; the zero value means no pool.
func byFamily(pools []netip.Prefix) (v4, v6 netip.Prefix) {
	for _, p := range pools {
		if p.Addr().Is4() {
			v4 = p
		} else {
			v6 = p
		}
	}
	return v4, v6
}
