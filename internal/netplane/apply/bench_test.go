// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/netplane/apply"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/netplane/intent/intenttest"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// BenchmarkServices measures, turn by turn in one run, how long it takes until the kernel has all services, one more, a
// changed one, and one less: by Apply, and by upstream's kube-proxy in nftables mode with the same objects.
func BenchmarkServices(b *testing.B) {
	testenv.Need(b, testenv.Root, testenv.Nft, testenv.Built)
	for _, n := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			m := newMeasures()
			for b.Loop() {
				measureMap(b, m, filepath.Join(dir, "ours"), n)
			}
			for round := range 3 { // it only has to be known how many times slower it is
				measureProxy(b, m, filepath.Join(dir, fmt.Sprint("proxy", round)), n)
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
	m.add(name, time.Since(start))
}

func (m measures) add(name string, d time.Duration) { m[name] = append(m[name], d) }

// median in milliseconds: the machine may do other things in some rounds.
func (m measures) median(name string) float64 {
	slices.Sort(m[name])
	return float64(m[name][len(m[name])/2].Microseconds()) / 1000
}

func (m measures) report(b *testing.B) {
	for name := range m {
		b.ReportMetric(m.median(name), "ms/"+name)
	}
	b.ReportMetric(m.median("proxy-all")/m.median("map-all"), "times-faster/all")
	b.ReportMetric(m.median("proxy-one-more")/m.median("map-one-more"), "times-faster/one-more")
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
