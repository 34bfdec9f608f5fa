// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"net/netip"
	"testing"

	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// TestLimits: what each version of HNS does not do.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		version  schema.Version
		noLimits bool
		want     limits
	}{
		{VersionOf(14393), false, limits{noLocalBackends: true, noAffinity: true, singleStack: true}},
		{VersionOf(17763), false, limits{noLocalBackends: true, noAffinity: true, singleStack: true}},
		{VersionOf(20348), false, limits{noLocalBackends: true}},
		{VersionOf(26100), false, limits{noLocalBackends: true}},
		{VersionOf(17763), true, limits{singleStack: true}},
		{VersionOf(20348), true, limits{}},
	} {
		if got := (Config{Version: c.version, NoLimits: c.noLimits}).limits(); got != c.want {
			t.Errorf("HNS %d, without limits %t: %+v, want %+v", c.version.Major, c.noLimits, got, c.want)
		}
	}
}

// TestAffinity: a version without session affinity takes the setting and draws a
// backend for each connection.
func TestAffinity(t *testing.T) {
	e := &endpoint{}
	e.ID, e.IPConfigurations = "e", []schema.IPConfig{{IPAddress: "10.244.1.5", PrefixLength: 24}}
	st := &state{endpoints: table[endpoint]{byID: map[string]*endpoint{e.ID: e}, order: []string{e.ID}}}
	lb := &balancer{}
	lb.ID, lb.FrontendVIPs, lb.HostComputeEndpoints = "lb", []string{"10.96.3.4"}, []string{e.ID}
	lb.PortMappings = []schema.LBPortMapping{{
		Protocol:         6,
		ExternalPort:     80,
		InternalPort:     8080,
		DistributionType: uint32(intent.SourceIP),
	}}
	for want, l := range map[intent.Distribution]limits{intent.SourceIP: {}, intent.FiveTuple: {noAffinity: true}} {
		got := compileLoadBalancer(st, lb, l)
		if len(got) != 1 || got[0].Distribution != want {
			t.Errorf("%+v: %+v, want distribution %d", l, got, want)
		}
	}
}

// TestSingleStack: a version without two families leaves the second one out of what the data plane does.
func TestSingleStack(t *testing.T) {
	uplink := intent.Uplink{Address6: netip.MustParsePrefix("fd00:10:89::b/64")}
	if got := compile(&state{}, uplink, nil, limits{singleStack: true}, nil).Uplink.Address6; got.IsValid() {
		t.Errorf("the host has %s", got)
	}
	if got := compile(&state{}, uplink, nil, limits{}, nil).Uplink; got != uplink {
		t.Errorf("the uplink became %+v", got)
	}
}
