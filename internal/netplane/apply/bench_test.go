// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/netplane/apply"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/netplane/intent/intenttest"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// BenchmarkServices measures, turn by turn in one run, how long it takes until
// the kernel has all services, one more, a changed one, and one less: by Apply
// with its one map, and by nft with a ruleset of the shape that kube-proxy's
// nftables mode makes. The peer is the shape only: kube-proxy itself also lists
// the table, and has affinity, firewall and node port rules.
func BenchmarkServices(b *testing.B) {
	testenv.Need(b, testenv.Root, testenv.Nft)
	for _, n := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			m := newMeasures()
			for b.Loop() {
				measureMap(b, m, filepath.Join(dir, "ours"), n)
				measureChains(b, m, filepath.Join(dir, "chains"), n)
			}
			m.report(b)
			b.ReportMetric(0, "ns/op") // the whole round says nothing
		})
	}
}

// measures are the durations of all rounds by name.
type measures map[string][]time.Duration

func newMeasures() measures { return measures{} }

func (m measures) time(b *testing.B, name string, do func() error) {
	b.Helper()
	start := time.Now()
	if err := do(); err != nil {
		b.Fatal(err)
	}
	m[name] = append(m[name], time.Since(start))
}

// median in milliseconds: the machine may do other things in some rounds.
func (m measures) median(name string) float64 {
	slices.Sort(m[name])
	return float64(m[name][len(m[name])/2].Microseconds()) / 1000
}

func (m measures) report(b *testing.B) {
	for name := range m {
		b.ReportMetric(m.median(name), "ms/"+name)
	}
	b.ReportMetric(m.median("chains-all")/m.median("map-all"), "times-faster/all")
	b.ReportMetric(m.median("chains-one-more")/m.median("map-one-more"), "times-faster/one-more")
}

func measureMap(b *testing.B, m measures, netns string, n int) {
	b.Helper()
	if err := kernel.CreateNamespace(netns, nil); err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := kernel.DeleteNamespace(netns); err != nil {
			b.Error(err)
		}
	}()
	p, err := apply.New(apply.Config{NetnsDir: netns + "-namespaces", Netns: netns})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	all := withPods(intenttest.Services(n, 2), 0)
	all.Uplink.Name = "" // there is none
	more := all
	more.LoadBalancers = append(append([]intent.LoadBalancer(nil), all.LoadBalancers...), intenttest.Service(n, 2))
	changed := all
	changed.LoadBalancers = append([]intent.LoadBalancer(nil), all.LoadBalancers...)
	changed.LoadBalancers[n/2].Backends = intenttest.Service(n+1, 2).Backends
	for _, step := range []struct {
		name string
		want intent.Host
	}{{"map-all", all}, {"map-one-more", more}, {"map-one-less", all}, {"map-one-changed", changed}} {
		m.time(b, step.name, func() error { return p.Apply(b.Context(), step.want) })
	}
}

func measureChains(b *testing.B, m measures, netns string, n int) {
	b.Helper()
	if err := kernel.CreateNamespace(netns, nil); err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := kernel.DeleteNamespace(netns); err != nil {
			b.Error(err)
		}
	}()
	s, err := kernel.Open(netns)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	m.time(b, "chains-all", func() error { return s.Nft(b.Context(), chainsTable(n)) })
	m.time(b, "chains-one-more", func() error {
		var t strings.Builder
		writeService(&t, n)
		return s.Nft(b.Context(), t.String())
	})
	m.time(b, "chains-one-less", func() error { return s.Nft(b.Context(), deleteService(n)) })
}

// chainsTable imitates the ruleset of kube-proxy's nftables mode
// (k8s.io/kubernetes v1.36.3, pkg/proxy/nftables): a chain for each service and
// for each of its endpoints, found through one verdict map.
func chainsTable(n int) string {
	var t strings.Builder
	t.WriteString(`add table ip kube-proxy
add chain ip kube-proxy mark-for-masquerade
add rule ip kube-proxy mark-for-masquerade mark set mark or 0x4000
add map ip kube-proxy service-ips { type ipv4_addr . inet_proto . inet_service : verdict ; }
add chain ip kube-proxy services
add rule ip kube-proxy services ip daddr . meta l4proto . th dport vmap @service-ips
add chain ip kube-proxy nat-prerouting { type nat hook prerouting priority -100 ; }
add rule ip kube-proxy nat-prerouting jump services
add chain ip kube-proxy nat-output { type nat hook output priority -100 ; }
add rule ip kube-proxy nat-output jump services
`)
	for i := range n {
		writeService(&t, i)
	}
	return t.String()
}

func serviceChain(i int) string { return fmt.Sprintf("service-%08X-default/svc-%d/tcp/http", i, i) }

func endpointChain(i, e int) string {
	return fmt.Sprintf("endpoint-%08X-default/svc-%d/tcp/http__10.244.%d.%d/8080", i, i, 2+e, i%256)
}

func writeService(t *strings.Builder, i int) {
	lb := intenttest.Service(i, 2)
	vip := lb.VIPs[0]
	for e, backend := range lb.Backends {
		c := endpointChain(i, e)
		fmt.Fprintf(t, "add chain ip kube-proxy %s\n", c)
		fmt.Fprintf(t, "add rule ip kube-proxy %s ip saddr %s jump mark-for-masquerade\n", c, backend.Address)
		fmt.Fprintf(t, "add rule ip kube-proxy %s meta l4proto tcp dnat to %s:8080\n", c, backend.Address)
	}
	c := serviceChain(i)
	fmt.Fprintf(t, "add chain ip kube-proxy %s\n", c)
	fmt.Fprintf(t, "add rule ip kube-proxy %s ip daddr %s tcp dport 80 ip saddr != 10.244.0.0/16 jump "+
		"mark-for-masquerade\n", c, vip)
	fmt.Fprintf(t, "add rule ip kube-proxy %s numgen random mod 2 vmap { 0 : goto %s , 1 : goto %s }\n", c,
		endpointChain(i, 0), endpointChain(i, 1))
	fmt.Fprintf(t, "add element ip kube-proxy service-ips { %s . tcp . 80 : goto %s }\n", vip, c)
}

func deleteService(i int) string {
	var t strings.Builder
	fmt.Fprintf(&t, "delete element ip kube-proxy service-ips { %s . tcp . 80 }\n", intenttest.Service(i, 2).VIPs[0])
	for _, c := range []string{serviceChain(i), endpointChain(i, 0), endpointChain(i, 1)} {
		fmt.Fprintf(&t, "flush chain ip kube-proxy %s\n", c)
	}
	for _, c := range []string{serviceChain(i), endpointChain(i, 0), endpointChain(i, 1)} {
		fmt.Fprintf(&t, "delete chain ip kube-proxy %s\n", c)
	}
	return t.String()
}

// BenchmarkPod is one endpoint attached and detached on a host with thirty: a
// namespace, its link, addresses and routes, and its part of the table.
func BenchmarkPod(b *testing.B) {
	testenv.Need(b, testenv.Root, testenv.Nft)
	dir := b.TempDir()
	netns := netlab.Namespace(b, filepath.Join(dir, "host"))
	p, err := apply.New(apply.Config{NetnsDir: filepath.Join(dir, "namespaces"), Netns: netns})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Close)
	all := intenttest.Services(100, 2)
	all.Uplink = intent.Uplink{}
	b.Cleanup(func() {
		for _, e := range all.Endpoints {
			if err := p.DeleteNamespace(context.Background(), e.NamespaceID); err != nil {
				b.Error(err)
			}
		}
	})
	less := withPods(all, 29)
	if err := p.Apply(b.Context(), less); err != nil {
		b.Fatal(err)
	}
	id := all.Endpoints[29].NamespaceID
	m := newMeasures()
	for b.Loop() {
		m.time(b, "namespace", func() error { return p.CreateNamespace(b.Context(), id) })
		m.time(b, "attach", func() error { return p.Apply(b.Context(), all) })
		m.time(b, "detach", func() error { return p.Apply(b.Context(), less) })
		m.time(b, "remove", func() error { return p.DeleteNamespace(b.Context(), id) })
	}
	for name := range m {
		b.ReportMetric(m.median(name), "ms/"+name)
	}
}
