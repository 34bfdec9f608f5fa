// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package validation

import (
	"testing"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
)

// TestEveryFieldPlaced places a pod with every field in turn, and the
// templates of all kinds with those that are refused on Windows: what the API
// server takes before, it takes after. Where a field stays that would be
// refused, the pod does not declare itself.
func TestEveryFieldPlaced(t *testing.T) {
	facts := mixed(t)
	judge := rule.New(facts)
	valid, declared := 0, 0
	check := func(name string, object map[string]any) {
		t.Helper()
		if len(upstream(object)) > 0 {
			return
		}
		valid++
		after := placed(t, judge, object, facts)
		if errs := upstream(after); len(errs) > 0 {
			t.Errorf("%s: refused once it is placed: %v", name, errs)
		}
		if spec, ok := after["spec"].(map[string]any); ok && spec["os"] != nil {
			declared++
		}
	}
	pod := withOS(policytest.Tweak(t, "spec: {nodeSelector: null}"), "")
	for _, m := range mutations() {
		check(m.String(), apply(pod, m))
	}
	for _, f := range refused() {
		if f.unset != policy.None {
			for path, w := range workloads(withOS(policytest.Tweak(t, f.object), "")) {
				check(f.id+" "+path, w)
			}
		}
	}
	t.Logf("%d objects, valid before and after; %d of the pods got spec.os.name", valid, declared)
}
