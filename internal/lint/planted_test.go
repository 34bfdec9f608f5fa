// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"slices"
	"testing"

	"github.com/mullion-k8s/mullion/internal/lint/linttest"
	"github.com/mullion-k8s/mullion/internal/lint/schema"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// TestPlanted lints every mistake of the list for a cluster such as that of
// test/e2e, which then shows what happens to them.
func TestPlanted(t *testing.T) {
	mistakes, err := linttest.Planted()
	if err != nil {
		t.Fatal(err)
	}
	if len(mistakes) < 100 {
		t.Errorf("%d mistakes, want 100 or more", len(mistakes))
	}
	const buildLabel = "node.kubernetes.io/windows-build"
	build, err := winver.Parse("2019")
	if err != nil {
		t.Fatal(err)
	}
	facts := policy.Facts{Kubernetes: 36, RuntimeClasses: map[string]policy.RuntimeClass{"windows-2019": {
		Handler:      "runhcs-wcow-process",
		NodeSelector: map[string]string{"kubernetes.io/os": "windows", buildLabel: "10.0.17763"},
	}}}
	for _, name := range []string{"win-1", "win-2"} {
		labels := map[string]string{"kubernetes.io/os": "windows", buildLabel: "10.0.17763"}
		labels["kubernetes.io/arch"] = "amd64"
		facts.Nodes = append(facts.Nodes, policy.Node{Name: name, OS: "windows", Build: build, Labels: labels})
	}
	// Of all kinds that pods refer to, this cluster has what each cluster has.
	facts.Objects = policy.Known{
		"ServiceAccount": {"default": {"default"}}, "PriorityClass": {"system-cluster-critical": {""}},
		"Namespace": {"default": {""}}, "ConfigMap": {"kube-root-ca.crt": {"default"}}, "Secret": {},
		"PersistentVolumeClaim": {},
	}
	for _, m := range mistakes {
		found := false
		_, err := Run(t.Context(), Config{Inputs: []Input{text(m.File, m.Text)}, Facts: facts}, func(r Result) error {
			wanted := policy.Error
			if m.Soft {
				wanted = policy.Warning
			}
			found = found || r.Code == m.Code && r.Severity == wanted
			return nil
		})
		if err != nil || !found {
			t.Errorf("%s: lint does not report %s: %v", m.Name, m.Code, err)
		}
	}
}

// TestSound: what a cluster takes is not an error.
func TestSound(t *testing.T) {
	for name, manifest := range linttest.Sound() {
		_, err := Run(t.Context(), Config{Inputs: []Input{text(name, manifest)}}, func(r Result) error {
			if r.Severity == policy.Error {
				t.Errorf("%s: %s %s: %s", name, r.Code, r.Field, r.Message)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestSchemaIsProven: each rule about schemas is shown by a planted mistake.
func TestSchemaIsProven(t *testing.T) {
	mistakes, err := linttest.Planted()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range schema.Rules() {
		shows := func(m linttest.Mistake) bool { return m.Code == r.Code }
		if !schema.Finds(r.Code) || !slices.ContainsFunc(mistakes, shows) {
			t.Errorf("no planted mistake shows %s", r.Code)
		}
	}
}
