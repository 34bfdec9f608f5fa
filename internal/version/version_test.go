// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package version_test

import (
	"os"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/version"
)

func TestKubernetesVersionIsTheOneInGoMod(t *testing.T) {
	for _, file := range []string{"../../go.mod", "../../upstream/go.mod"} {
		mod, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(mod), "k8s.io/kubernetes "+version.Kubernetes) {
			t.Errorf("%s does not require k8s.io/kubernetes %s", file, version.Kubernetes)
		}
	}
}

func TestNewer(t *testing.T) {
	for v, want := range map[string]bool{
		version.Kubernetes: false, "v1.36.99": false, "v1.9.0": false, "v0.99.0": false,
		"v1.37.0-alpha.0": true, "v2.0.0": true,
		"": false, "1.99": false,
	} {
		if got := version.Newer(v); got != want {
			t.Errorf("%q: %v", v, got)
		}
	}
}
