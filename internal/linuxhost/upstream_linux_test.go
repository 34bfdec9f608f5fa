// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/agent/netpolicy"
	"github.com/mullion-k8s/mullion/internal/agent/netpolicy/policytest"
	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
)

// TestUpstreamTruthTablesOnTheWire judges by packets the rules that two workers make of policies.
func TestUpstreamTruthTablesOnTheWire(t *testing.T) {
	lab := netlab.NewLab(t, ipv6.Plan{})
	hosts := [2]netlab.Host{lab.Host(), lab.Host()}
	w := policytest.Wire{Places: policytest.Spread(hosts), Netns: map[string]string{}}
	for _, h := range hosts {
		netlab.Run(t, h.Netns, "sysctl -q net.ipv4.ip_forward=1")
		for name, p := range w.Places {
			if p.Node == h.Name {
				link := "pod-" + strings.ReplaceAll(name, "/", "-")
				w.Netns[name] = lab.Namespace(link)
				connectPod(t, h, link, w.Netns[name], p.Address)
			}
		}
	}
	w.Enforce = func(t *testing.T, c *netpolicy.Cluster) {
		for _, h := range hosts {
			s, err := kernel.Open(h.Netns)
			if err != nil {
				t.Fatal(err)
			}
			text := policyRules(netpolicy.Compile(c, h.Name), []netip.Prefix{h.Pods}, len(c.Policies) > 0)
			if err := s.Nft(t.Context(), text); err != nil {
				t.Fatal(err)
			}
			s.Close()
		}
	}
	w.Judge(t)
}

// connectPod makes the links, addresses and routes that the CNI plugin ptp makes.
func connectPod(t *testing.T, h netlab.Host, link, netns string, address netip.Addr) {
	t.Helper()
	gateway := h.Pods.Addr().Next()
	netlab.Run(t, h.Netns, fmt.Sprintf("ip link add %s type veth peer name eth0 netns %s", link, netns),
		fmt.Sprintf("ip address add %s/32 dev %s", gateway, link), fmt.Sprintf("ip link set %s up", link),
		fmt.Sprintf("ip route add %s/32 dev %s", address, link))
	netlab.Run(t, netns, fmt.Sprintf("ip address add %s/32 dev eth0", address), "ip link set eth0 up",
		fmt.Sprintf("ip route add %s dev eth0", gateway), fmt.Sprintf("ip route add default via %s", gateway))
}
