// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package ipv6

import (
	"net/netip"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	whole := Plan{
		NodeCIDR:    netip.MustParsePrefix("fd00:10:89::/64"),
		PodCIDR:     netip.MustParsePrefix("fd00:10:244::/48"),
		ServiceCIDR: netip.MustParsePrefix("fd00:10:96::/112"),
	}
	for _, p := range []Plan{{}, whole} {
		if err := p.Validate(); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if n := len(whole.Networks()); n != 3 || (Plan{}).Networks() != nil {
		t.Errorf("%d networks", n)
	}
	for want, change := range map[string]func(*Plan){
		"ipv6.nodeCIDR is missing, or not of IPv6":    func(p *Plan) { p.NodeCIDR = netip.PrefixFrom(four(), 24) },
		"ipv6.podCIDR is missing, or not of IPv6":     func(p *Plan) { p.PodCIDR = netip.Prefix{} },
		"ipv6.serviceCIDR is missing, or not of IPv6": func(p *Plan) { p.ServiceCIDR = mapped() },
	} {
		p := whole
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
}

func four() netip.Addr { return netip.MustParseAddr("10.1.0.1") }

// mapped is an IPv4 network in the form of IPv6.
func mapped() netip.Prefix { return netip.PrefixFrom(netip.MustParseAddr("::ffff:10.1.0.0"), 112) }

func TestJoin(t *testing.T) {
	six := netip.MustParseAddr("fd00::1")
	for want, pair := range map[string][2]netip.Addr{
		"10.1.0.1": {four()}, "fd00::1": {{}, six}, "10.1.0.1,fd00::1": {four(), six}, "": {},
	} {
		if got := Join(pair[0], pair[1]); got != want {
			t.Errorf("%v: %q, want %q", pair, got, want)
		}
	}
}
