// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"slices"
	"strings"
	"testing"
)

// TestPool: a cluster keeps its pools for load balancers; one from before there was a choice has the default.
func TestPool(t *testing.T) {
	const both = "10.90.3.0/24,fd00:10:90:3::/112"
	for _, tc := range []struct {
		family            ipFamily
		have, asked, want string
	}{
		{"", "", "", "10.90.3.0/24"},
		{"", "", "10.90.3.0/24", "10.90.3.0/24"},
		{"", "none", "none", "none"},
		{"", "192.168.7.0/28", "192.168.7.0/28", "192.168.7.0/28"},
		{"", "", "none", "--load-balancer-pool is 10.90.3.0/24, not none: Services may have its addresses"},
		{"", "none", "10.90.3.0/24", "is none, not 10.90.3.0/24"},
		{"", "", "10.90.9.0/24", "is 10.90.3.0/24, not 10.90.9.0/24"},
		{"", "", "10.89.3.128/25", "the cluster uses 10.89.3.0/24 for something else"},
		{"", "", "fd00::/120", "load balancer pool fd00::/120: the cluster has IPv4 only"},
		{"", "", "10.90.3.0/24,fd00::/120", "load balancer pool fd00::/120: the cluster has IPv4 only"},
		{"", "", "all", "want a range, as 10.90.0.0/24, or none"},
		{"", "", "10.90.3.0/24,", `load balancer pool "": want a range`},
		{"", "", "10.90.3.0/24,10.91.0.0/24",
			"load balancer pool 10.91.0.0/24: 10.90.3.0/24 is of the same address family"},

		{dualStack, "", "", both},
		{dualStack, "", both, both},
		{dualStack, "", "fd00:10:90:3::/112, 10.90.3.0/24", both},
		{dualStack, "none", "none", "none"},
		{dualStack, "10.90.3.0/24", "10.90.3.0/24", "10.90.3.0/24"},
		{dualStack, "fd12::/120", "fd12::/120", "fd12::/120"},
		{dualStack, "", "none", "is " + both + ", not none: Services may have its addresses"},
		{dualStack, "", "10.90.3.0/24", "is " + both + ", not 10.90.3.0/24: Services may have its addresses"},
		{dualStack, "", "10.90.3.0/24,fd00:10:96::/112", "is " + both + ", not 10.90.3.0/24,fd00:10:96::/112"},
		{dualStack, "", "fd00:10:99::/120", "the cluster uses fd00:10:99::/112 for something else"},
		{dualStack, "", "fd00:10:89:3::/112", "the cluster uses fd00:10:89:3::/64 for something else"},
		{dualStack, "", "fd00:10:90::/64", "want 65536 addresses or fewer"},
		{dualStack, "", "fd00:10:90::1/112", "not an IPv6 range, as fd00:10:90::/112"},
		{dualStack, "", "fd00::/112,fd01::/112",
			"load balancer pool fd01::/112: fd00::/112 is of the same address family"},
		{dualStack, "", "none,fd00::/112", `load balancer pool "none": want a range`},
	} {
		have := Config{APIVersion: apiVersion, Name: "x", Index: 3, LoadBalancerPool: tc.have, IPFamily: tc.family}
		got, err := have.merge(Choice{LoadBalancerPool: &tc.asked}, true)
		if err != nil {
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q asked for %q: %v, want %q", tc.have, tc.asked, err, tc.want)
			}
			continue
		}
		checkPools(t, got, tc.want)
	}
}

// checkPools expects pools in a cluster, and in what its parts are told.
func checkPools(t *testing.T, c Config, want string) {
	t.Helper()
	pools, err := c.Pools()
	if err != nil || PoolName(pools) != want {
		t.Errorf("%q has the pools %s, %v, want %s", c.LoadBalancerPool, PoolName(pools), err, want)
	}
	p, err := Describe(Layout{"/var/lib/mullion", "x"}, c, "/opt/mullion/bin")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Server.Validate(); err != nil {
		t.Error(err)
	}
	v4, v6 := byFamily(pools)
	if p.Fabric.Pool != v4 || p.Fabric.Pool6 != v6 || !slices.Equal(p.Server.LoadBalancer.Pools(), pools) {
		t.Errorf("want the pools %v: fabric %v and %v, server %v", pools, p.Fabric.Pool, p.Fabric.Pool6,
			p.Server.LoadBalancer)
	}
}

// TestDSRStays: it cannot be turned on or off later.
func TestDSRStays(t *testing.T) {
	for _, off := range []bool{false, true} {
		have := Config{APIVersion: apiVersion, Name: "x", NoDSR: off}
		for _, asked := range []bool{false, true} {
			_, err := have.merge(Choice{DSR: &asked}, false)
			if (err == nil) != (asked != off) {
				t.Errorf("without DSR: %t, asked for DSR: %t: %v", off, asked, err)
			}
		}
	}
}
