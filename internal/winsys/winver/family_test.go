// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winver_test

import (
	"testing"

	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

func TestTwoFamilies(t *testing.T) {
	for version, want := range map[string]bool{
		"10.0.17763": false, "10.0.18363.1": false, "10.0.19041": true, "10.0.20348": true, "10.0.26100.4946": true,
		"": false, "22": false,
	} {
		if got := winver.TwoFamilies(version); got != want {
			t.Errorf("%q: %t", version, got)
		}
	}
}
