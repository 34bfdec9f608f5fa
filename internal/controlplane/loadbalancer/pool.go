// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package loadbalancer

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// choose returns the address of the pool that a Service gets: the one that it asks for, the one
// that it has, or the first that no other has.
func choose(pool netip.Prefix, s *corev1.Service, used map[netip.Addr]types.NamespacedName) (netip.Addr, error) {
	if s.Spec.LoadBalancerIP != "" {
		return asked(pool, s.Spec.LoadBalancerIP, used)
	}
	for _, a := range addressesOf(pool, s) {
		if _, taken := used[a]; !taken {
			return a, nil
		}
	}
	first, last := bounds(pool)
	for a := first; a.Compare(last) <= 0; a = a.Next() {
		if _, taken := used[a]; !taken {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("all %d addresses of the pool %s are in use: delete a Service of type "+
		"LoadBalancer, or make a cluster with a larger one (mullion up --load-balancer-pool)", len(used), pool)
}

// asked checks spec.loadBalancerIP.
func asked(pool netip.Prefix, ip string, used map[netip.Addr]types.NamespacedName) (netip.Addr, error) {
	a, err := netip.ParseAddr(ip)
	first, last := bounds(pool)
	if err != nil || a.Compare(first) < 0 || a.Compare(last) > 0 {
		return netip.Addr{}, fmt.Errorf("spec.loadBalancerIP %q: this cluster has the addresses %s to %s; choose one "+
			"of them, or leave the field out", ip, first, last)
	}
	if by, taken := used[a]; taken {
		return netip.Addr{}, fmt.Errorf("spec.loadBalancerIP %s: Service %s has this address; choose another, or "+
			"leave the field out", ip, by)
	}
	return a, nil
}

// bounds returns the first and the last address that can be given out: not those of the network
// itself and of broadcast, which some programs refuse.
func bounds(pool netip.Prefix) (first, last netip.Addr) {
	b := pool.Masked().Addr().As4()
	for i := pool.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	first, last = pool.Masked().Addr(), netip.AddrFrom4(b)
	if pool.Bits() <= 30 {
		return first.Next(), last.Prev()
	}
	return first, last
}

// addressesOf returns the addresses of the pool in a Service's status.
func addressesOf(pool netip.Prefix, s *corev1.Service) []netip.Addr {
	var out []netip.Addr
	for _, in := range s.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(in.IP); err == nil && pool.Contains(a) {
			out = append(out, a)
		}
	}
	return out
}
