// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"testing"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// TestRefusedBy: labels of a namespace count more than the cluster's admission.
func TestRefusedBy(t *testing.T) {
	enforce := func(level string) map[string]string {
		return map[string]string{"admission.mullion.dev/enforce": level}
	}
	for _, tt := range []struct {
		labels   map[string]string
		severity policy.Severity
		want     string
	}{
		{nil, policy.Error, byEnforce},
		{nil, policy.Warning, byStrict},
		{nil, policy.Info, ""},
		{enforce("none"), policy.Error, byStrict},
		{enforce("strict"), policy.Warning, byEnforce},
		{enforce("cannot-run"), policy.Warning, byStrict},
	} {
		if got := refusedBy(tt.labels, tt.severity); got != tt.want {
			t.Errorf("a finding of severity %v in %v is refused by %q, want %q", tt.severity, tt.labels, got, tt.want)
		}
	}
}
