// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"strings"
	"testing"
)

func TestLastError(t *testing.T) {
	const earlier = "mullion: error: of an earlier life\n"
	for _, tc := range []struct{ log, want string }{
		{"", ""},
		{"ready\n", ""},
		{"mullion: error: first\nmullion: error: port 1 is busy\nmullion: hint: free it\n", "port 1 is busy"},
		{"mullion: error: cut off", "cut off"},
		{"mullion: error: too long ago\n" + strings.Repeat("x\n", logTail), ""},
	} {
		if got := lastError(strings.NewReader(earlier+tc.log), int64(len(earlier)), endLine); got != tc.want {
			t.Errorf("log %.40q: %q, want %q", tc.log, got, tc.want)
		}
	}
}
