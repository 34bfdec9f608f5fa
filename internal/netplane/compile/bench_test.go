// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/netplane/intent/intenttest"
)

// BenchmarkCompile measures the pure part: all from nothing with its script, and
// one changed service with the script of the difference.
func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		h := intenttest.Services(n, 2)
		b.Run(fmt.Sprintf("services=%d/all", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, err := Compile(h, nil)
				if err != nil {
					b.Fatal(err)
				}
				_ = Script(TableName, p.Table.Replace())
			}
		})
		b.Run(fmt.Sprintf("services=%d/one", n), func(b *testing.B) {
			b.ReportAllocs()
			old, err := Compile(h, nil)
			if err != nil {
				b.Fatal(err)
			}
			next := h
			next.LoadBalancers = slices.Clone(h.LoadBalancers)
			next.LoadBalancers[n/2].Backends = intenttest.Service(n+1, 2).Backends
			script := ""
			for b.Loop() {
				p, err := Compile(next, old)
				if err != nil {
					b.Fatal(err)
				}
				script = Script(TableName, p.Diff(old))
			}
			b.ReportMetric(float64(len(script)), "B/script")
			b.ReportMetric(float64(strings.Count(script, "\n")), "lines/script")
		})
	}
}
