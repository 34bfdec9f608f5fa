// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package admission_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pairs of pods, one with webhooks and one without, are made in turn, so that
// what else the machine does counts for both.
const pairs = 400

// BenchmarkPodCreate measures what the webhooks add to the creation of a pod:
// the same API server, the same pods, a namespace with them and one that opted
// out. Goal: 2 ms at the median.
func BenchmarkPodCreate(b *testing.B) {
	c := startCluster(b)
	c.addNodes()
	m, _ := c.startManager(offline)
	c.ready(m)
	c.must("apiVersion: v1\nkind: Namespace\nmetadata: {name: without, labels: {admission.mullion.dev/disabled: \"true\"}}\n", nil, "create", "-f", "-")
	client := c.client()
	images := []struct{ name, image string }{{"linux", linux}, {"windows", ltsc2019}}
	took := map[string][]time.Duration{}
	for b.Loop() {
		for range pairs {
			for _, image := range images {
				for _, ns := range []string{"default", "without"} {
					pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image.image}}}}
					began := time.Now()
					if _, err := client.CoreV1().Pods(ns).Create(b.Context(), pod, metav1.CreateOptions{}); err != nil {
						b.Fatal(err)
					}
					took[image.name+ns] = append(took[image.name+ns], time.Since(began))
				}
			}
		}
	}
	for _, image := range images {
		with, without := quantiles(took[image.name+"default"]), quantiles(took[image.name+"without"])
		b.ReportMetric(with[0], "ms-p50/"+image.name)
		b.ReportMetric(without[0], "ms-p50/"+image.name+"-without")
		b.ReportMetric(with[0]-without[0], "ms-added-p50/"+image.name)
		b.ReportMetric(with[1]-without[1], "ms-added-p99/"+image.name)
	}
	b.ReportMetric(0, "ns/op") // it would count hundreds of pods as one
}

// quantiles are the median and the 99th of a hundred, in milliseconds.
func quantiles(d []time.Duration) [2]float64 {
	slices.Sort(d)
	return [2]float64{float64(d[len(d)/2].Microseconds()) / 1000, float64(d[len(d)*99/100].Microseconds()) / 1000}
}
