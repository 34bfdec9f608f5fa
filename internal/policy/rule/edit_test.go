// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"encoding/json"
	"testing"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// TestEditsOnlyNarrow: what rules add to pods selects nodes and names the
// operating system; nothing that they add gives a pod more rights than it had.
func TestEditsOnlyNarrow(t *testing.T) {
	allowed := map[string]bool{
		"os.name": true, "nodeSelector[kubernetes.io/os]": true, "nodeSelector[kubernetes.io/arch]": true,
	}
	for _, f := range fixtures() {
		object := policytest.Tweak(t, f.fail)
		for _, g := range Check(object, f.facts) {
			for _, e := range g.Edits {
				p := e.Path
				for len(p) > 0 && p[0].Key != "spec" {
					p = p[1:]
				}
				for len(p) > 0 && (p[0].Key == "spec" || p[0].Key == "template") {
					p = p[1:]
				}
				if e.Op == tree.Add && !allowed[p.String()] {
					t.Errorf("%s of %s adds %s", g.Code, f.code, e.Path)
				}
				if b, err := json.Marshal(e); err != nil || len(b) == 0 {
					t.Errorf("%s: %v", g.Code, err)
				}
			}
		}
	}
}

// TestNoGuessIsWritten: what only contents or a toleration suggest is said,
// and not written into the pod.
func TestNoGuessIsWritten(t *testing.T) {
	for _, text := range []string{
		`{spec: {os: null, nodeSelector: null}, c: {image: x, command: [powershell.exe]}}`,
		`{spec: {os: {name: linux}, nodeSelector: null, tolerations: [{key: os, value: windows}]}, c: {image: x}}`,
		`obj: {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {template: {spec: {containers: ` +
			`[{name: c, image: x, command: [cmd]}]}}}}`,
	} {
		for _, g := range Check(policytest.Tweak(t, text), policy.Facts{}) {
			for _, e := range g.Edits {
				if e.Op == tree.Add {
					t.Errorf("%s writes %s=%v into %s", g.Code, e.Path, e.Value, text)
				}
			}
		}
	}
}
