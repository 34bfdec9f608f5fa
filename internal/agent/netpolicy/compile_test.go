// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netpolicy_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mullion-k8s/mullion/internal/agent/netpolicy"
	"github.com/mullion-k8s/mullion/internal/agent/netpolicy/policytest"
)

func protocols() []corev1.Protocol {
	return []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
}

func TestCompile(t *testing.T) {
	pod := func(namespace, name, address string, change func(*netpolicy.Pod)) netpolicy.Pod {
		p := netpolicy.Pod{Namespace: namespace, Name: name, Node: "n", Labels: map[string]string{"app": name},
			Addresses: []netip.Addr{netip.MustParseAddr(address)}}
		if change != nil {
			change(&p)
		}
		return p
	}
	base := []netpolicy.Pod{
		pod("x", "web", "10.0.0.1", func(p *netpolicy.Pod) {
			p.Ports = []netpolicy.ContainerPort{{Name: "http", Number: 8080},
				{Name: "dns", Protocol: netpolicy.UDP, Number: 53}}
		}),
		pod("x", "client", "10.0.0.2", nil),
		pod("y", "client", "10.0.0.3", nil),
		pod("x", "job", "10.0.0.4", func(p *netpolicy.Pod) { p.Done = true }),
		pod("x", "proxy", "10.0.0.5", func(p *netpolicy.Pod) { p.HostNetwork = true }),
		pod("x", "far", "10.0.0.6", func(p *netpolicy.Pod) { p.Node = "other" }),
		pod("new", "client", "10.0.0.7", nil), // its namespace is not known yet
	}
	for _, tt := range []struct{ name, spec, want string }{
		{"no policy of the pod", "{podSelector: {matchLabels: {app: other}}}", "open open"},
		{"default types", "{podSelector: {}}", "in[] open"},
		{"default types with egress", "{podSelector: {}, egress: [{}]}", "in[] out[all]"},
		{"only what has a network of its own", "{podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}",
			"in[10.0.0.1/32 10.0.0.2/32 10.0.0.6/32] open"},
		{"known namespaces only", "{podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}",
			"in[10.0.0.1/32 10.0.0.2/32 10.0.0.3/32 10.0.0.6/32] open"},
		{"ranges and names", "{podSelector: {}, ingress: [{" +
			"ports: [{port: 80, endPort: 90}, {port: 91}, {port: http}, " +
			"{port: dns, protocol: UDP}, {protocol: SCTP}]}]}",
			"in[* SCTP 0-65535,TCP 80-91,TCP 8080-8080,UDP 53-53,] open"},
		{"a name of another protocol", "{podSelector: {}, ingress: [{ports: [{port: dns}]}]}", "in[] open"},
		{"a selector that selects nothing", "{podSelector: {}, ingress: [" +
			"{from: [{podSelector: {matchLabels: {no: one}}}]}]}",
			"in[] open"},
		{"the same ports are one rule", "{podSelector: {}, ingress: [" +
			"{from: [{ipBlock: {cidr: 10.1.0.0/16}}], ports: [{port: 80}]}, " +
			"{from: [{ipBlock: {cidr: 10.2.0.0/16}}], ports: [{port: 80, protocol: TCP}]}]}",
			"in[10.1.0.0/16 10.2.0.0/16 TCP 80-80,] open"},
		{"a block in a wider one", "{podSelector: {}, ingress: [" +
			"{from: [{ipBlock: {cidr: 10.0.0.0/8}}, {podSelector: {}}]}]}",
			"in[10.0.0.0/8] open"},
		{"egress to a name", "{podSelector: {}, egress: [{ports: [{port: http}]}], policyTypes: [Egress]}",
			"open out[10.0.0.1/32 TCP 8080-8080,]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &netpolicy.Cluster{Pods: base, Namespaces: []netpolicy.Namespace{{Name: "x"}, {Name: "y"}},
				Policies: []netpolicy.Policy{policytest.Parse(t, "x", "p", tt.spec)}}
			endpoints := netpolicy.Compile(c, "n")
			var names []string
			for _, e := range endpoints {
				names = append(names, e.Namespace+"/"+e.Name)
			}
			if want := []string{"new/client", "x/client", "x/web", "y/client"}; !slices.Equal(names, want) {
				t.Fatalf("endpoints %v, want %v", names, want)
			}
			web := endpoints[2]
			if got := show("in", web.Ingress) + " " + show("out", web.Egress); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if endpoints[0].Ingress != nil || endpoints[3].Ingress != nil {
				t.Error("a policy isolates pods of another namespace")
			}
		})
	}
}

func show(name string, d *netpolicy.Direction) string {
	if d == nil {
		return "open"
	}
	var rules []string
	for _, r := range d.Allow {
		var words []string
		for _, p := range r.Peers {
			words = append(words, p.String())
		}
		if len(r.Peers) == 0 && len(r.Ports) == 0 {
			words = []string{"all"}
		} else if len(r.Peers) == 0 {
			words = []string{"*"}
		}
		if len(r.Ports) > 0 {
			var ports strings.Builder
			for _, p := range r.Ports {
				fmt.Fprintf(&ports, "%s %d-%d,", p.Protocol, p.First, p.Last)
			}
			words = append(words, ports.String())
		}
		rules = append(rules, strings.Join(words, " "))
	}
	return name + "[" + strings.Join(rules, "; ") + "]"
}

// BenchmarkPolicies compiles 1,000 policies for 1,000 pods of 20 namespaces, all of them
// on one node.
func BenchmarkPolicies(b *testing.B) {
	c := &netpolicy.Cluster{}
	for n := range 20 {
		namespace := fmt.Sprint("ns", n)
		c.Namespaces = append(c.Namespaces, netpolicy.Namespace{Name: namespace,
			Labels: map[string]string{"team": fmt.Sprint(n % 5),
				"kubernetes.io/metadata.name": namespace}})
		for i := range 50 {
			c.Pods = append(c.Pods, netpolicy.Pod{Namespace: namespace, Name: fmt.Sprint("p", i), Node: "n",
				Labels: map[string]string{"app": fmt.Sprint("a", i%10), "tier": fmt.Sprint(i % 3),
					"pod": fmt.Sprint(i)},
				Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 244, byte(n), byte(i)})},
				Ports: []netpolicy.ContainerPort{{Name: "http", Protocol: netpolicy.TCP,
					Number: uint16(8000 + i)}}})
			specs := []string{
				`{podSelector: {matchLabels: {app: a%d}}, ingress: [` +
					`{from: [{podSelector: {matchLabels: {pod: "%d"}}}]}]}`,
				`{podSelector: {matchLabels: {app: a%d}}, ingress: [` +
					`{from: [{namespaceSelector: {matchLabels: {team: "1"}}, ` +
					`podSelector: {matchLabels: {pod: "%d"}}}], ports: [{port: http}]}]}`,
				`{podSelector: {matchLabels: {app: a%d}}, egress: [{to: [{namespaceSelector: {}, podSelector: ` +
					`{matchLabels: {pod: "%d"}}}, {ipBlock: {cidr: 0.0.0.0/0, ` +
					`except: [10.0.0.0/8, 169.254.169.254/32]}}], ports: [{port: 443}]}]}`,
				`{podSelector: {matchExpressions: [{key: tier, operator: In, values: ["%d", "x%d"]}]}, ingress: [{}]}`,
			}
			spec := fmt.Sprintf(specs[i%4], i%10, i)
			c.Policies = append(c.Policies, policytest.Parse(b, namespace, fmt.Sprint("p", i), spec))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if got := netpolicy.Compile(c, "n"); len(got) != 1000 {
			b.Fatal(len(got))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/1000-policies")
}
