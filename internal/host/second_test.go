// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
)

func TestSecond(t *testing.T) {
	whole := Second{
		Address:     netip.MustParsePrefix("fd00:10:89::10/64"),
		PodCIDR:     netip.MustParsePrefix("fd00:10:244::/48"),
		ServiceCIDR: netip.MustParsePrefix("fd00:10:96::/112"),
	}
	if err := whole.Validate(); err != nil {
		t.Error(err)
	}
	want := fabric.Second{NodeNet: netip.MustParsePrefix("fd00:10:89::/64"), PodNet: whole.PodCIDR,
		ServiceNet: whole.ServiceCIDR}
	if got := whole.ranges(); got != want {
		t.Errorf("ranges %v, want %v", got, want)
	}
	if none := (Second{}); none.Validate() != nil || none.ranges() != (fabric.Second{}) {
		t.Errorf("one family: %v, %v", none.Validate(), none.ranges())
	}
	other := netip.MustParsePrefix("10.1.0.0/16")
	for want, change := range map[string]func(*Second){
		"second.address is missing":                     func(s *Second) { s.Address = netip.Prefix{} },
		"second.address fd00:10:89::/64 is not":         func(s *Second) { s.Address = s.Address.Masked() },
		"second.podCIDR is missing, or not of IPv6":     func(s *Second) { s.PodCIDR = other },
		"second.serviceCIDR is missing, or not of IPv6": func(s *Second) { s.ServiceCIDR = netip.Prefix{} },
	} {
		s := whole
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}
