// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric

import (
	"net/netip"
	"strings"
	"testing"
)

func TestCheckPool(t *testing.T) {
	for _, c := range []struct{ pool, want string }{
		{"10.90.0.0/24", ""}, {"10.90.0.0/16", ""}, {"192.168.7.4/32", ""},
		{"fd00:10:90::/112", ""}, {"2001:db8::4/126", ""}, {"fd00:10:90::1/128", ""},
		{"10.90.0.1/24", "not an IPv4 range, as 10.90.0.0/24"},
		{"fd00:10:90::1/112", "not an IPv6 range, as fd00:10:90::/112"},
		{"::ffff:10.90.0.0/120", "not an IPv6 range"},
		{"10.90.0.0/15", "65536 addresses or fewer"}, {"fd00:10:90::/111", "65536 addresses or fewer"},
		{"0.1.0.0/24", "can be routed"}, {"127.0.0.0/24", "can be routed"}, {"224.0.1.0/24", "can be routed"},
		{"169.254.1.0/24", "can be routed"},
		{"::/112", "can be routed"}, {"ff02::/112", "can be routed"}, {"fe80::/112", "can be routed"},
		{"64:ff9b::/112", "can be routed"},
		{"10.96.4.0/24", "the cluster uses 10.96.0.0/16 for something else; choose another range, or none"},
		{"fd00:10:96::/120", "the cluster uses fd00:10:96::/112 for something else"},
	} {
		err := CheckPool(netip.MustParsePrefix(c.pool), netip.MustParsePrefix("10.96.0.0/16"),
			netip.MustParsePrefix("fd00:10:96::/112"))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.pool, err, c.want)
		}
	}
	if err := CheckPool(netip.Prefix{}); err == nil {
		t.Error("no range is taken for one")
	}
}
