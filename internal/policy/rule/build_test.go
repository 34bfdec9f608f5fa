// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"testing"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// TestNodeWithoutBuild: a node that has just joined has not reported its build.
func TestNodeWithoutBuild(t *testing.T) {
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{
		"os":         map[string]any{"name": "windows"},
		"containers": []any{map[string]any{"name": "c", "image": "mcr.microsoft.com/windows/servercore:ltsc2016"}},
	}}
	b, ok := winver.Find(17763)
	if !ok {
		t.Fatal("no build 17763")
	}
	nodes := []policy.Node{{Name: "a", OS: "windows"}, {Name: "b", OS: "windows", Build: b}}
	for _, f := range Check(pod, policy.Facts{Nodes: nodes}) {
		if f.Code == "WIN414" || f.Code == "WIN412" { // it may be the one
			t.Errorf("%s: %s", f.Code, f.Message)
		}
	}
}
