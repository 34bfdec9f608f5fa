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
