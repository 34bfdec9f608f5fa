// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package loadbalancer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
)

// pools are the ranges with addresses, at least one, of one address family each.
type pools []netip.Prefix

// of returns the pool of a family, if there is one.
func (p pools) of(family corev1.IPFamily) (netip.Prefix, bool) {
	i := slices.IndexFunc(p, func(r netip.Prefix) bool { return familyOf(r.Addr()) == family })
	if i < 0 {
		return netip.Prefix{}, false
	}
	return p[i], true
}

func (p pools) contains(a netip.Addr) bool {
	return slices.ContainsFunc(p, func(r netip.Prefix) bool { return r.Contains(a) })
}

// String lists the pools for people.
func (p pools) String() string {
	return strings.Join(names(p), " and ")
}

func familyOf(a netip.Addr) corev1.IPFamily {
	if a.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// families returns the families in which a Service gets addresses, in its own order: the families in spec.ipFamilies
// that have a pool. For a Service that prefers two, one is enough.
func (p pools) families(s *corev1.Service) ([]corev1.IPFamily, error) {
	only := fmt.Sprintf("the cluster's load balancer has %s addresses only", familyOf(p[0].Addr()))
	policy := s.Spec.IPFamilyPolicy
	if len(p) == 1 && policy != nil && *policy == corev1.IPFamilyPolicyRequireDualStack {
		return nil, fmt.Errorf("spec.ipFamilyPolicy: %s: %s; with %s the Service gets one", *policy, only,
			corev1.IPFamilyPolicyPreferDualStack)
	}
	if len(s.Spec.IPFamilies) == 0 {
		return []corev1.IPFamily{familyOf(p[0].Addr())}, nil
	}
	var out []corev1.IPFamily
	for _, f := range s.Spec.IPFamilies {
		if _, ok := p.of(f); ok {
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("spec.ipFamilies: %s: %s", s.Spec.IPFamilies[0], only)
	}
	return out, nil
}

// choose returns the addresses that a Service gets, one of each of its families: the one that it requests, its
// present one, or the first unused one.
func (p pools) choose(s *corev1.Service, used map[netip.Addr]types.NamespacedName) ([]netip.Addr, error) {
	families, err := p.families(s)
	if err != nil {
		return nil, err
	}
	var wish netip.Addr
	if s.Spec.LoadBalancerIP != "" {
		if wish, err = p.asked(s.Spec.LoadBalancerIP, families, used); err != nil {
			return nil, err
		}
	}
	var out []netip.Addr
	for _, f := range families {
		pool, _ := p.of(f) // each of families has a pool
		a := wish
		if !pool.Contains(wish) {
			if a, err = chooseFrom(pool, s, used); err != nil {
				return nil, err
			}
		}
		out = append(out, a)
	}
	return out, nil
}

func chooseFrom(pool netip.Prefix, s *corev1.Service, used map[netip.Addr]types.NamespacedName) (netip.Addr, error) {
	for _, a := range addressesOf(pools{pool}, s) {
		if _, taken := used[a]; !taken {
			return a, nil
		}
	}
	first, last := bounds(pool)
	n := 0
	for a := first; a.IsValid() && a.Compare(last) <= 0; a = a.Next() {
		if _, taken := used[a]; !taken {
			return a, nil
		}
		n++
	}
	return netip.Addr{}, fmt.Errorf("all %d addresses of the pool %s are in use: delete a Service of type "+
		"LoadBalancer, or make a cluster with a larger one (mullion up --load-balancer-pool)", n, pool)
}

// asked checks and returns the address in spec.loadBalancerIP of a Service with the given
// families.
func (p pools) asked(ip string, families []corev1.IPFamily, used map[netip.Addr]types.NamespacedName) (
	netip.Addr, error,
) {
	a, err := netip.ParseAddr(ip)
	valid := err == nil && a.Zone() == "" // Compare ignores the zone
	var ranges []string
	found := false
	for _, f := range families {
		pool, _ := p.of(f) // each of families has a pool
		first, last := bounds(pool)
		ranges = append(ranges, fmt.Sprintf("%s to %s", first, last))
		found = found || valid && a.Compare(first) >= 0 && a.Compare(last) <= 0
	}
	if !found && valid && p.contains(a) && !slices.Contains(families, familyOf(a)) {
		return netip.Addr{}, fmt.Errorf("spec.loadBalancerIP %s: the Service has no %s; add it to spec.ipFamilies, or "+
			"choose one of %s", ip, familyOf(a), strings.Join(ranges, " and "))
	}
	if !found {
		return netip.Addr{}, fmt.Errorf("spec.loadBalancerIP %q: this cluster has the addresses %s; choose one "+
			"of them, or leave the field out", ip, strings.Join(ranges, " and "))
	}
	if by, taken := used[a]; taken {
		return netip.Addr{}, fmt.Errorf("spec.loadBalancerIP %s: Service %s has this address; choose another, or "+
			"leave the field out", ip, by)
	}
	return a, nil
}

// bounds returns the first and the last address that can be assigned. This excludes the network
// address and the broadcast address, which some programs refuse. IPv6 has no broadcast, and in
// place of the network's address one for all its routers (RFC 4291, section 2.6.1).
func bounds(pool netip.Prefix) (first, last netip.Addr) {
	first, last = pool.Masked().Addr(), fabric.Last(pool)
	switch single := pool.Bits() > first.BitLen()-2; {
	case single:
		return first, last
	case first.Is6():
		return first.Next(), last
	}
	return first.Next(), last.Prev()
}

// addressesOf returns the addresses of the pools in a Service's status.
func addressesOf(p pools, s *corev1.Service) []netip.Addr {
	var out []netip.Addr
	for _, in := range s.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(in.IP); err == nil && p.contains(a) {
			out = append(out, a)
		}
	}
	return out
}
