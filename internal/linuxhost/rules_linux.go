// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
)

// rules returns the transaction for nft(8) with the host's own table. Pods reach what
// is outside of the cluster with the node's address, as those of Windows hosts do:
// nothing outside knows the way to a pod. Within the cluster they keep their own.
func rules(c Config) string {
	var inside []string
	for _, p := range []netip.Prefix{c.PodCIDR, c.ServiceCIDR, c.Address.Masked()} {
		inside = append(inside, p.String())
	}
	return fmt.Sprintf(`add table ip mullion
delete table ip mullion
add table ip mullion
add chain ip mullion postrouting { type nat hook postrouting priority srcnat ; }
add rule ip mullion postrouting ip saddr %s ip daddr != { %s } oifname %q masquerade
`, c.PodCIDR, strings.Join(inside, ", "), fabric.Uplink)
}
