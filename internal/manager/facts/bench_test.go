// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package facts

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// BenchmarkFacts: one pod in a cluster of 1,000 nodes with 50 images each, of
// which one image is on nodes, one was read from a registry, and one names its
// build.
func BenchmarkFacts(b *testing.B) {
	var objects []runtime.Object
	for i := range 1000 {
		var names []string
		for j := range 50 {
			names = append(names, fmt.Sprintf("registry.example.com/team%d/app%d:1", i%20, j))
		}
		if i%2 == 0 {
			objects = append(objects, windowsNode(fmt.Sprintf("w%d", i), "10.0.20348.1", names...))
		} else {
			objects = append(objects, linuxNode(fmt.Sprintf("l%d", i), names...))
		}
	}
	image, requests := serveCounted(b, "acme/shop:1")
	s := start(b, newClient(objects...), Config{})
	object := policy.Parse(pod("default", image, "registry.example.com/team1/app1:1",
		"mcr.microsoft.com/windows/servercore:ltsc2022"))
	if f, w := s.Facts(b.Context(), "default", object); len(w) > 1 || len(f.Images) != 1 {
		b.Fatalf("%v, %q", f.Images, w)
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s.Facts(b.Context(), "default", object)
		}
	})
	b.ReportMetric(float64(requests.Load()), "requests")
}

// BenchmarkHeartbeat: what a status of a node costs that changes nothing.
func BenchmarkHeartbeat(b *testing.B) {
	var names []string
	for j := range 50 {
		names = append(names, fmt.Sprintf("registry.example.com/app%d:1", j))
	}
	n := windowsNode("w", "10.0.20348.1", names...)
	s := newNodes()
	b.ReportAllocs()
	for b.Loop() {
		s.set(n)
	}
}
