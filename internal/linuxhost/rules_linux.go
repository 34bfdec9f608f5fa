// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"fmt"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
)

// ipv6Rules are the rules of IPv6. A pod sends with its own address only. Neighbour
// discovery on the link to the pod is exempt, because its requests have the unspecified
// address, too (RFC 4861, section 4.3). To other destinations it would go through the host.
// There is no masquerading: IPv6 ends at the fabric's router.
const ipv6Rules = `add table ip6 mullion
delete table ip6 mullion
add table ip6 mullion
add chain ip6 mullion prerouting { type filter hook prerouting priority raw ; }
add rule ip6 mullion prerouting icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 daddr { fe80::/10,
	ff02::/16 } accept
add rule ip6 mullion prerouting icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } fib daddr type local accept
add rule ip6 mullion prerouting fib saddr . iif oif missing counter drop
`

// rules returns the transaction for nft(8) with the host's own table. Pods reach
// destinations outside of the cluster with the node's address, like pods of Windows
// hosts: no router outside has a route to a pod. Within the cluster they keep their
// own.
//
// Nodes have no routes to an overlay's addresses, so there pods reach nodes with the node's
// address, too. Only peers may send to the tunnel's port, each for its own pods (peerRules); no
// pod reaches it, by a Service either, and packets without a tunnel do not leave.
func rules(c Config) string {
	inside := c.PodCIDR.String() + ", " + c.ServiceCIDR.String()
	if c.Network != agent.VXLAN {
		inside += ", " + c.Address.Masked().String()
	}
	out := fmt.Sprintf(`add table ip mullion
delete table ip mullion
add table ip mullion
add chain ip mullion postrouting { type nat hook postrouting priority srcnat ; }
add rule ip mullion postrouting ip saddr %s ip daddr != { %s } oifname %q masquerade
`, c.PodCIDR, inside, fabric.Uplink)
	if c.dual() {
		out += ipv6Rules
	}
	if c.Network != agent.VXLAN {
		return out
	}
	const unreachable = "counter reject with icmp type host-unreachable"
	out += peerRules(nil)
	out += fmt.Sprintf(`add chain ip mullion input { type filter hook input priority filter ; }
add rule ip mullion input udp dport %[1]d iifname != %[2]q counter drop
add rule ip mullion input udp dport %[1]d ip saddr != %[3]s counter drop
add rule ip mullion input udp dport %[1]d jump tunnel
add chain ip mullion forward { type filter hook forward priority filter ; }
add rule ip mullion forward oifname %[2]q udp dport %[1]d counter drop
add rule ip mullion forward oifname %[2]q ip daddr %[4]s %[5]s
add chain ip mullion leaving { type filter hook postrouting priority filter ; }
add rule ip mullion leaving oifname %[2]q ip daddr %[4]s counter drop
`, agent.FlannelPort, fabric.Uplink, c.Address.Masked(), c.PodCIDR, unreachable)
	if machine := c.machine(); machine.IsValid() {
		// Packets from the fabric for a pod, and not for a Service, come from the API
		// server.
		out += fmt.Sprintf(`add rule ip mullion forward iifname %[1]q ct status dnat accept
add rule ip mullion forward iifname %[1]q ip daddr %[2]s ip saddr != %[3]s ct state new %[4]s
`, fabric.Uplink, c.PodCIDR, machine, unreachable)
	}
	if c.PodGateway {
		// The machine has no address in the overlay.
		out += fmt.Sprintf("add rule ip mullion postrouting oifname \"flannel.%d\" ip saddr %s masquerade\n",
			agent.FlannelVNI, c.machine())
	}
	return out
}
