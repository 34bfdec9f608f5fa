// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"testing"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
)

// TestSelectorSaysWhatThereIs: users learn which labels Windows nodes have.
func TestSelectorSaysWhatThereIs(t *testing.T) {
	unknown := pools("blue")
	unknown.Nodes[0].Labels = nil
	for _, tt := range []struct {
		pod   string
		facts policy.Facts
		want  string // FIELD: MESSAGE; "" for no finding
	}{
		{`spec: {nodeSelector: {pool: web}}`, pools("green", "blue"),
			"spec.nodeSelector.pool: no Windows node has the label pool: web; on Windows nodes it is blue, green"},
		{`spec: {nodeSelector: {disk: ssd}}`, pools("blue"), "spec.nodeSelector.disk: no Windows node has the label " +
			"disk: ssd; they have kubernetes.io/os=windows, pool=blue, zone=a"},
		{`spec: {nodeSelector: {pool: blue, zone: b}}`, pools("blue", "green"), "spec.nodeSelector: no Windows node " +
			"has all the labels that the pod selects; they have kubernetes.io/os=windows, pool=blue, pool=green, " +
			"zone=a, zone=b"},
		{`spec: {nodeSelector: {pool: web}}`, unknown, ""},
		{`spec: {nodeSelector: {pool: web}}`, policy.Facts{}, ""},
		{`spec: {nodeSelector: {pool: blue}}`, pools("blue"), ""},
		// They have rules of their own.
		{`spec: {nodeSelector: {node.kubernetes.io/windows-build: 10.0.17763}}`, pools("blue"), ""},
		{`spec: {nodeSelector: {kubernetes.io/os: Windows}}`, pools("blue"), ""},
	} {
		got := ""
		for _, f := range Check(policytest.Tweak(t, tt.pod), tt.facts) {
			if f.Code == "WIN425" {
				got = f.Field + ": " + f.Message
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.pod, got, tt.want)
		}
	}
}
