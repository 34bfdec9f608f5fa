// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import "testing"

func TestMapsOverlays(t *testing.T) {
	for release, want := range map[string]bool{
		"4.19.0": false, "5.15.0-100-generic": false, "5.19.0": true,
		"6.1.0-44-amd64": true, "6.18": true, "custom": true,
	} {
		if got := mapsOverlays(release); got != want {
			t.Errorf("%s: %t", release, got)
		}
	}
	if !mapsOverlays(kernelRelease()) {
		t.Errorf("this kernel, %s, cannot", kernelRelease())
	}
}
