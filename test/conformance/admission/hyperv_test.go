// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package admission_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestHyperV: the RuntimeClass that placement writes for the old annotation is
// merged in by the API server as if the user had named it
// (docs/internals/policy.md).
func TestHyperV(t *testing.T) {
	c := startCluster(t)
	c.addNodes()
	m, _ := c.startManager(offline)
	c.ready(m)
	c.must(`
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: hyperv}
handler: runhcs-wcow-hypervisor
overhead: {podFixed: {memory: 320Mi}}
scheduling:
  nodeSelector: {kubernetes.io/os: windows}
  tolerations: [{key: hyperv, operator: Exists, effect: NoSchedule}]
`, nil, "create", "-f", "-")
	manifest := strings.Replace(pod("old", ltsc2019), "namespace: default",
		`namespace: default, annotations: {experimental.windows.kubernetes.io/isolation-type: hyperv}`, 1)
	var got corev1.Pod
	testenv.Until(t, "the RuntimeClass is known", func() bool {
		c.must(manifest, &got, "create", "--dry-run=server", "-f", "-", "-o", "json")
		return got.Spec.RuntimeClassName != nil
	})
	c.must(manifest, &got, "create", "-f", "-", "-o", "json")
	s := got.Spec
	if s.RuntimeClassName == nil || *s.RuntimeClassName != "hyperv" ||
		s.NodeSelector["kubernetes.io/os"] != "windows" || s.Overhead.Memory().String() != "320Mi" {
		t.Errorf("class %v, selector %v, overhead %v", s.RuntimeClassName, s.NodeSelector, s.Overhead)
	}
	found := false
	for _, tol := range s.Tolerations {
		found = found || tol.Key == "hyperv"
	}
	if !found {
		t.Errorf("the toleration of the class is missing: %v", s.Tolerations)
	}
}
