// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"strings"
	"testing"
)

// TestPool: a cluster keeps its pool for load balancers; one from before there was a choice has the default.
func TestPool(t *testing.T) {
	for _, tc := range []struct{ have, asked, want string }{
		{"", "", "10.90.3.0/24"},
		{"", "10.90.3.0/24", "10.90.3.0/24"},
		{"none", "none", "none"},
		{"192.168.7.0/28", "192.168.7.0/28", "192.168.7.0/28"},
		{"", "none", "--load-balancer-pool is 10.90.3.0/24, not none: Services may have its addresses"},
		{"none", "10.90.3.0/24", "is none, not 10.90.3.0/24"},
		{"", "10.90.9.0/24", "is 10.90.3.0/24, not 10.90.9.0/24"},
		{"", "10.89.3.128/25", "the cluster uses 10.89.3.0/24 for something else"},
		{"", "fd00::/120", "not an IPv4 range"},
		{"", "all", "want a range, as 10.90.0.0/24, or none"},
	} {
		have := Config{APIVersion: apiVersion, Name: "x", Index: 3, LoadBalancerPool: tc.have}
		got, err := have.merge(Choice{LoadBalancerPool: &tc.asked}, true)
		if err != nil {
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q asked for %q: %v, want %q", tc.have, tc.asked, err, tc.want)
			}
			continue
		}
		if pool, err := got.Pool(); err != nil || PoolName(pool) != tc.want {
			t.Errorf("%q asked for %q: %s, %v, want %s", tc.have, tc.asked, pool, err, tc.want)
		}
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
