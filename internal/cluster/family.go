// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"fmt"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
)

// ipFamily has the address families of a cluster; "" means IPv4.
type ipFamily string

// dualStack: nodes, pods and Services have addresses of IPv4 and of IPv6.
const dualStack ipFamily = "dual"

// singleStack is the word for "" in a Choice.
const singleStack = "ipv4"

// parseFamily parses the field of a Choice.
func parseFamily(s string) (ipFamily, error) {
	switch s {
	case "", singleStack:
		return "", nil
	case string(dualStack):
		return dualStack, nil
	}
	return "", fmt.Errorf("%q: want %s or %s", s, singleStack, dualStack)
}

// Families returns the word for the cluster's address families, as `mullion up` takes it.
func (c Config) Families() string {
	if c.dual() {
		return string(dualStack)
	}
	return singleStack
}

// dual reports whether the cluster has two address families.
func (c Config) dual() bool { return c.IPFamily == dualStack }

// ipv6 returns the cluster's IPv6 plan, the zero value if it has IPv4 only.
func (c Config) ipv6() ipv6.Plan {
	if !c.dual() {
		return ipv6.Plan{}
	}
	return c.Network().ipv6()
}

// checkFamily returns an error if the cluster cannot have its address families.
//
// kube-proxy keeps to one family in an overlay of Windows (kubernetes v1.36.3 pkg/proxy/winkernel/supported.go,
// DualStackCompatible: "Winoverlay does not support dual-stack, falling back to single-stack"). flanneld's
// configuration is for IPv4 only.
func (c Config) checkFamily() error {
	switch {
	case c.IPFamily != "" && c.IPFamily != dualStack:
		return fmt.Errorf("ipFamily %q: want %q, or none for IPv4", string(c.IPFamily), string(dualStack))
	case c.dual() && c.Mode() == agent.VXLAN:
		return fmt.Errorf("two address families with network %s: an overlay of Windows has IPv4 only; use %s",
			c.Mode(), agent.L2Bridge)
	case c.dual() && c.Mode() != agent.L2Bridge:
		return fmt.Errorf("two address families with network %s: flanneld makes routes of IPv4 only here; use %s",
			c.Mode(), agent.L2Bridge)
	}
	return nil
}
