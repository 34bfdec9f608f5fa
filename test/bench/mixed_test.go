// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// BenchmarkMixed measures clusters of two Windows hosts and a Linux worker, in each network: when all nodes are
// ready, what the worker and flanneld.exe hold while nothing happens, and the start of Linux pods.
func BenchmarkMixed(b *testing.B) {
	c := newCluster(b)
	for i, network := range []string{"l2bridge", "host-gw", "vxlan"} {
		b.Run(network, func(b *testing.B) {
			c := cluster{b, c.dir}
			up := []string{"up", "--windows", "2019,2019", "--network", network, "--kubeconfig", "none"}
			if i == 0 { // the first start fills the cache and is not measured
				c.mullion(up...)
				c.forget()
			}
			for b.Loop() {
				began := time.Now()
				c.mullion(up...)
				last := time.Time{}
				for _, n := range []string{"win-1", "win-2", "linux-1"} {
					if at := c.ready(n); at.After(last) {
						last = at
					}
				}
				b.ReportMetric(last.Sub(began).Seconds(), "s/all-nodes-ready")
				held := c.settled("win-1", "win-2", "linux-1")
				b.ReportMetric(held.nodes["linux-1"], "MB-PSS/worker-idle")
				if network != "l2bridge" {
					b.ReportMetric(held.flanneld/2, "MB-PSS/flanneld.exe")
				}
				c.mullion("load", testenv.Bin("linux", "hello.tar"))
				c.podStarts(20, workload{"linux", "mullion/hello:1"})
			}
			b.ReportMetric(0, "ns/op") // the sum of different things
			c.forget()
		})
	}
}

// BenchmarkTenHosts measures what a server, a Linux worker and ten Windows hosts hold while nothing happens.
func BenchmarkTenHosts(b *testing.B) {
	c := newCluster(b)
	nodes := []string{"linux-1"}
	for i := range 10 {
		nodes = append(nodes, fmt.Sprintf("win-%d", i+1))
	}
	for b.Loop() {
		c.mullion("up", "--windows", strings.Join(slices.Repeat([]string{"2019"}, 10), ","), "--kubeconfig", "none")
		held := c.settled(nodes...)
		sum := held.server
		for _, n := range held.nodes {
			sum += n
		}
		b.ReportMetric(sum, "MB-PSS/all")
		b.ReportMetric(float64(held.processes), "processes")
	}
	b.ReportMetric(0, "ns/op") // nothing that is waited for
}

// forget stops the cluster and removes its data, but not the caches.
func (c cluster) forget() {
	c.b.Helper()
	c.mullion("down")
	if err := os.RemoveAll(filepath.Join(c.dir, "clusters")); err != nil {
		c.b.Fatal(err)
	}
}
