// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import "testing"

func TestNeverJoined(t *testing.T) {
	for out, want := range map[string]bool{
		"Error from server (NotFound): nodes \"win-9\" not found\n":                                    true,
		"node/win-1 cordoned\nError from server (NotFound): nodes \"win-1\" not found\n":               false,
		"node/win-1 cordoned\nerror: unable to drain: pods \"a\": Error from server (NotFound): no\n":  false,
		"Error from server (NotFound): pods \"a\" not found":                                           false,
		"Error from server (NotFound): nodes \"a\" not found\nerror when evicting pods/\"b\" -n \"c\"": false,
		"": false,
	} {
		if got := neverJoined([]byte(out)); got != want {
			t.Errorf("%q: %t", out, got)
		}
	}
}
