// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package place

import (
	"fmt"
	"testing"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// BenchmarkPlace is the work of the mutating webhook for one pod, without
// decoding and encoding.
func BenchmarkPlace(b *testing.B) {
	object := policytest.Decode(b, `
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ns, ownerReferences: [{controller: true}]}
spec:
  containers:
  - {name: a, image: "mcr.microsoft.com/windows/servercore:ltsc2022",
      securityContext: {allowPrivilegeEscalation: false}}
  - {name: b, image: registry.example/app:1}
  volumes: [{name: v, emptyDir: {}}]
`)
	linux := policytest.Decode(b, `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: a, `+
		`image: nginx}]}}`)
	for _, nodes := range []int{4, 1000} {
		facts := tainted(cluster(17763, 20348, 26100), policy.Taint{Key: "os", Value: "windows", Effect: "NoSchedule"})
		for i := range nodes - 3 {
			n := facts.Nodes[i%3]
			n.Name = fmt.Sprint("w", i)
			n.Labels = map[string]string{"kubernetes.io/arch": "amd64"}
			facts.Nodes = append(facts.Nodes, n)
		}
		facts.Nodes = append(facts.Nodes, policy.Node{Name: "l", OS: "linux"})
		judge := rule.New(facts)
		for name, o := range map[string]map[string]any{"windows": object, "linux": linux} {
			b.Run(fmt.Sprintf("%s/nodes=%d", name, nodes), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					for _, p := range Pods(judge, policy.Parse(o), facts) {
						if _, _, err := tree.Apply(o, p.Edits); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
		b.Run(fmt.Sprintf("judge/nodes=%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Check(judge, policy.Parse(object), facts)
			}
		})
	}
}
