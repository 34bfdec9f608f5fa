// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package plan

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
)

// ReadyName returns a name that the cluster's DNS server resolves as soon as it works.
func ReadyName(c config.Config) string { return "kubernetes.default.svc." + c.ClusterDomain + "." }

// corefile is kubeadm's default (cmd/kubeadm/app/phases/addons/dns/manifests.go,
// CoreDNSConfigMap) without the plugins that are useless within one process: health,
// ready and prometheus (each opens a port; readiness is checked with a DNS query), reload
// and loop.
func corefile(c config.Config, m Machine) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".:%d {\n", c.DNSAddress.Port())
	fmt.Fprintf(&b, "    bind %s\n", c.DNSAddress.Addr())
	b.WriteString("    errors\n")
	fmt.Fprintf(&b, "    kubernetes %s in-addr.arpa ip6.arpa {\n", c.ClusterDomain)
	fmt.Fprintf(&b, "        kubeconfig %s\n", Kubeconfig(c, CoreDNS))
	b.WriteString("        pods insecure\n        fallthrough in-addr.arpa ip6.arpa\n        ttl 30\n    }\n")
	if up := upstream(c, m); len(up) > 0 {
		b.WriteString("    forward .")
		for _, a := range up {
			fmt.Fprintf(&b, " %s", a)
		}
		b.WriteString(" {\n        max_concurrent 1000\n    }\n")
	}
	fmt.Fprintf(&b, "    cache 30 {\n        disable success %[1]s\n        disable denial %[1]s\n    }\n",
		c.ClusterDomain)
	b.WriteString("    loadbalance\n}\n")
	return b.String()
}

// upstream returns the servers for other names. They must not include the server itself,
// which would cause a loop.
func upstream(c config.Config, m Machine) []netip.AddrPort {
	if c.DNSUpstream != nil {
		return c.DNSUpstream
	}
	var up []netip.AddrPort
	for _, r := range m.Resolvers {
		if r != c.DNSAddress {
			up = append(up, r)
		}
	}
	return up
}

// maxResolvers is the resolver's own limit (resolv.conf(5), MAXNS).
const maxResolvers = 3

// ParseResolvConf lists the name servers of a resolv.conf(5).
func ParseResolvConf(content string) []netip.AddrPort {
	var out []netip.AddrPort
	for line := range strings.Lines(content) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" {
			continue
		}
		// A zone ("fe80::1%eth0") cannot be written into a Corefile.
		a, err := netip.ParseAddr(f[1])
		if err != nil || a.Zone() != "" || len(out) == maxResolvers {
			continue
		}
		out = append(out, netip.AddrPortFrom(a, 53))
	}
	return out
}

// hostPort is where nodes reach the API server.
func hostPort(c config.Config) string {
	return netip.AddrPortFrom(c.Advertise(), c.Port).String()
}
