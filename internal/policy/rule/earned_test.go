// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	psa "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestErrorsAreEarned: every rule that may be an error names the test that shows
// the failure, and the test exists. The rules that may refuse are a list of their
// own, so that a change of it is seen.
func TestErrorsAreEarned(t *testing.T) {
	tests := map[string]string{} // the test files of a directory
	source := func(dir string) string {
		if text, ok := tests[dir]; ok {
			return text
		}
		files, err := filepath.Glob(filepath.Join("..", "..", "..", dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(text)
		}
		tests[dir] = b.String()
		return b.String()
	}
	var list strings.Builder
	for _, r := range All() {
		if (r.Severity == policy.Error) != (r.Proof != "") {
			t.Errorf("%s is of severity %v, and its proof is %q", r.Code, r.Severity, r.Proof)
			continue
		}
		if r.Proof == "" {
			continue
		}
		dir, name, _ := strings.Cut(r.Proof, ".")
		if !strings.Contains(source(dir), "\nfunc "+name+"(t *testing.T) {") {
			t.Errorf("%s: there is no test %s in %s", r.Code, name, dir)
		}
		fmt.Fprintf(&list, "%s %s\n", r.Code, r.Proof)
	}
	testenv.Golden(t, "may-refuse.txt", []byte(list.String()))
}

// TestPodSecurityRefuses: what WIN361 and WIN362 report is refused by Pod
// Security Admission, and what they do not report is not.
func TestPodSecurityRefuses(t *testing.T) {
	evaluator, err := psapolicy.NewEvaluator(psapolicy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(object map[string]any, level string) bool {
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		var pod corev1.Pod
		if err := yaml.UnmarshalStrict(text, &pod); err != nil {
			t.Fatal(err)
		}
		at := psa.LevelVersion{Level: psa.Level(level), Version: psa.LatestVersion()}
		return !psapolicy.AggregateCheckResults(evaluator.EvaluatePod(at, &pod.ObjectMeta, &pod.Spec)).Allowed
	}
	for _, tt := range []struct{ code, level, pod string }{
		{"WIN361", "baseline", hpc("")},
		{"WIN361", "restricted", hpc("")},
		{"", "privileged", hpc("")},
		{"WIN362", "restricted", `{}`},
		{"WIN362", "restricted", `spec: {securityContext: {runAsNonRoot: false}}`},
		{"", "restricted", `spec: {securityContext: {runAsNonRoot: true}}`},
		{"", "baseline", `{}`},
	} {
		object := policytest.Tweak(t, tt.pod)
		if got := refused(object, tt.level); got != (tt.code != "") {
			t.Errorf("%s: %s: Pod Security Admission refuses: %v", tt.level, tt.pod, got)
		}
		ours := ""
		for _, f := range Check(object, namespace(map[string]string{policy.EnforceLevel: tt.level})) {
			if f.Severity == policy.Error && ours == "" {
				ours = f.Code
			}
		}
		if ours != tt.code {
			t.Errorf("%s: %s: our error is %q, want %q", tt.level, tt.pod, ours, tt.code)
		}
	}
}
