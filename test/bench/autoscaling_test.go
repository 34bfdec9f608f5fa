// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package bench

import (
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// BenchmarkAutoscaling measures from the begin of load on the Deployment of examples/hpa.yaml until its
// HorizontalPodAutoscaler wants more than one replica. metrics-server asks each kubelet every 15 s and the
// controller looks every 15 s, so that a part of the figure is when in these rounds the load began.
func BenchmarkAutoscaling(b *testing.B) {
	c := newCluster(b)
	c.mullion("up", "--windows", "2019", "--linux", "0", "--kubeconfig", "none")
	client := c.client()
	var took []time.Duration
	for b.Loop() {
		const rounds = 3
		for range rounds {
			c.kubectl("apply", "-f", testenv.Repo("examples", "hpa.yaml"))
			c.kubectl("rollout", "status", "deployment/busy", "--timeout=120s")
			autoscaler := func(holds func(wants int32, knows bool) bool) func() bool {
				return func() bool {
					hpa, err := client.AutoscalingV2().HorizontalPodAutoscalers("default").Get(b.Context(), "busy",
						metav1.GetOptions{})
					if err != nil {
						b.Fatal(err)
					}
					return holds(hpa.Status.DesiredReplicas, len(hpa.Status.CurrentMetrics) > 0 &&
						hpa.Status.CurrentMetrics[0].Resource != nil)
				}
			}
			c.until("figures of the idle pod", autoscaler(func(_ int32, knows bool) bool { return knows }))
			ask, end := get(c.output("url", "busy")), make(chan struct{})
			var clients sync.WaitGroup
			began := time.Now()
			for range 2 {
				clients.Go(func() {
					for {
						select {
						case <-end:
							return
						default:
							_ = ask() // a pod that is too busy refuses
						}
					}
				})
			}
			c.until("more replicas are wanted", autoscaler(func(wants int32, _ bool) bool { return wants > 1 }))
			took = append(took, time.Since(began))
			close(end)
			clients.Wait()
			c.kubectl("delete", "-f", testenv.Repo("examples", "hpa.yaml"))
		}
	}
	slices.Sort(took)
	b.ReportMetric(percentile(took, 50), "s-p50/decision")
	b.ReportMetric(took[len(took)-1].Seconds(), "s-max/decision")
	b.ReportMetric(0, "ns/op") // the sum of different things
}
