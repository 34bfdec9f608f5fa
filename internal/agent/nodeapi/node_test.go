// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package nodeapi

import (
	"fmt"
	"testing"
)

func TestPodCIDRs(t *testing.T) {
	for body, want := range map[string]string{
		`{"spec":{"podCIDR":"10.244.1.0/24"}}`:                                        "[10.244.1.0/24]",
		`{"spec":{"podCIDR":"10.244.1.0/24","podCIDRs":["10.244.1.0/24"]}}`:           "[10.244.1.0/24]",
		`{"spec":{"podCIDR":"10.1.1.0/24","podCIDRs":["10.1.1.0/24","fd00:1::/64"]}}`: "[10.1.1.0/24 fd00:1::/64]",
	} {
		api := &Client{url: "https://api", name: "win-1", transport: roundTrip{200, body}}
		n, err := api.Get(t.Context())
		if got := fmt.Sprint(n.PodCIDRs()); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", body, got, err, want)
		}
	}
}
