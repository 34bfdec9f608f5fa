// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package version

import (
	"testing"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// TestSemantic: what the kubelet makes of a runtime's version is never "Unknown".
func TestSemantic(t *testing.T) {
	for described, want := range map[string]string{
		"v1.2.3":                  "v1.2.3",
		"v1.2.3-4-gd200a9d-dirty": "v1.2.3-4-gd200a9d-dirty",
		"v0.0.0-gd200a9d":         "v0.0.0-gd200a9d",
		"d200a9d":                 "v0.0.0-gd200a9d",
		"0123456-dirty":           "v0.0.0-g0123456-dirty",
		"":                        "v0.0.0-unknown",
		"not a version":           "v0.0.0-unknown",
	} {
		got := semantic(described)
		if got != want {
			t.Errorf("%q: %s; want %s", described, got, want)
		}
		// pkg/kubelet/kuberuntime, newRuntimeVersion
		if _, err := utilversion.ParseSemantic(got); err != nil {
			t.Errorf("%q: %v", described, err)
		}
	}
}
