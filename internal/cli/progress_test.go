// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cli

import (
	"strings"
	"testing"
)

// TestRows: a line that is longer than the terminal is wide is redrawn as a whole.
func TestRows(t *testing.T) {
	for _, tc := range []struct {
		runes, columns, want int
	}{{0, 80, 1}, {79, 80, 1}, {80, 80, 1}, {81, 80, 2}, {160, 80, 2}, {161, 80, 3}, {500, 0, 1}} {
		if got := rows(strings.Repeat("⠋", tc.runes), tc.columns); got != tc.want {
			t.Errorf("%d of %d columns: %d rows, want %d", tc.runes, tc.columns, got, tc.want)
		}
	}
}
