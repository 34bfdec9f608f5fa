// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/agent/netpolicy"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func TestPolicyRules(t *testing.T) {
	prefixes := func(list ...string) (out []netip.Prefix) {
		for _, s := range list {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	}
	endpoint := func(a string, in, out *netpolicy.Direction) netpolicy.Endpoint {
		return netpolicy.Endpoint{Addresses: []netip.Addr{netip.MustParseAddr(a)}, Ingress: in, Egress: out}
	}
	ranges := prefixes("10.244.1.0/24", "fd00:1::/64")
	for _, tt := range []struct {
		name      string
		endpoints []netpolicy.Endpoint
		isolate   bool
	}{
		{"none", nil, false},
		{"unknown", nil, true},
		{"some", []netpolicy.Endpoint{
			endpoint("10.244.1.2", nil, nil),
			endpoint("10.244.1.3", &netpolicy.Direction{}, &netpolicy.Direction{Allow: []netpolicy.Rule{{}}}),
			endpoint("10.244.1.4", &netpolicy.Direction{Allow: []netpolicy.Rule{
				{Peers: prefixes("10.244.2.7/32", "10.0.0.0/9", "fd00::/8"),
					Ports: []netpolicy.Ports{{Protocol: "SCTP", First: 1, Last: 2},
						{Protocol: "TCP", First: 80, Last: 80}, {Protocol: "TCP", First: 8000, Last: 8010},
						{Protocol: "UDP", First: 0, Last: 65535}}},
				{Peers: prefixes("fd00::/8")},
				{Ports: []netpolicy.Ports{{Protocol: "UDP", First: 53, Last: 53}}},
				{Peers: prefixes("192.0.2.0/24")},
			}}, nil),
			endpoint("fd00:1::5", &netpolicy.Direction{}, nil),
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := policyRules(tt.endpoints, ranges, tt.isolate)
			testenv.Golden(t, "policy-"+tt.name+".nft", []byte(text))
			testenv.Need(t, testenv.Root, testenv.Nft)
			cmd := exec.Command("unshare", "--net", "nft", "--check", "-f", "-")
			cmd.Stdin = strings.NewReader(text)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("nft: %v\n%s", err, out)
			}
		})
	}
}
