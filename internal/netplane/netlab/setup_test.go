// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"net/netip"
	"testing"

	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// addAddress gives the namespace's loopback device another address.
func addAddress(t *testing.T, netns string, p netip.Prefix) {
	t.Helper()
	s, err := kernel.Open(netns)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lo, err := s.FindLink("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AddAddresses(lo, []netip.Prefix{p}, true); err != nil {
		t.Fatal(err)
	}
}
