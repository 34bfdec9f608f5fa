// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/lint/linttest"
	"github.com/mullion-k8s/mullion/internal/lint/schema"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

const plantedHead = `# Planted mistakes

Each of these %d objects has one mistake. A test lints them, as a user would before applying them, and applies them to a
cluster with emulated Windows nodes: it fails where the cluster refuses an object or does not run its pod and lint did
not report the mistake as an error. (Where nodes differ, and some may run it, a warning is enough.) The manifests are in
[internal/lint/linttest/planted.txtar](../../internal/lint/linttest/planted.txtar); this page is generated
(` + "`go test ./internal/lint -update`" + `).

| mistake | what lint says | what the cluster says |
|---|---|---|
`

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
	var page strings.Builder
	fmt.Fprintf(&page, plantedHead, len(mistakes))
	for _, m := range mistakes {
		said := ""
		_, err := Run(t.Context(), Config{Inputs: []Input{text(m.File, m.Text)}, Facts: facts}, func(r Result) error {
			wanted := policy.Error
			if m.Soft {
				wanted = policy.Warning
			}
			if r.Code == m.Code && r.Severity == wanted && said == "" {
				said = r.Message
			}
			return nil
		})
		if err != nil || said == "" {
			t.Errorf("%s: lint does not report %s: %v", m.Name, m.Code, err)
		}
		said, _, _ = strings.Cut(said, " (e.g.") // a regular expression, in which links would be seen
		cell := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;")
		fmt.Fprintf(&page, "| %s | %s: %s | %s |\n", m.Name, m.Code, cell.Replace(said), cell.Replace(m.Says))
	}
	testenv.Golden(t, "../../../docs/reference/planted.md", []byte(page.String()))
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
