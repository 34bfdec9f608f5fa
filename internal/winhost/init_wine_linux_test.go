// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"strings"
	"testing"
	"time"
)

// TestStoppedPrograms: a program that is stopped for half a minute is reported, one that goes on meanwhile, or
// another one with its number later, is not.
func TestStoppedPrograms(t *testing.T) {
	now := time.Unix(0, 0)
	states := map[int]byte{10: 'S', 11: 'T', 12: 'R'}
	w := &wineHealth{
		clients: func() []int { return []int{10, 11, 12} },
		state:   func(pid int) byte { return states[pid] },
		now:     func() time.Time { return now },
	}
	stopped := func() bool {
		err := w.check(t.Context()) // there is no wineserver either
		return err != nil && strings.Contains(err.Error(), "process 11 of the host is stopped")
	}
	for _, step := range []struct {
		seconds int
		state   byte
		want    bool
	}{
		{0, 'T', false}, {10, 'T', false}, {19, 'T', false}, {1, 'S', false}, {10, 'T', false}, {25, 'T', false},
		{5, 'T', true}, {10, 'T', true}, {10, 0, false},
	} {
		now = now.Add(time.Duration(step.seconds) * time.Second)
		states[11] = step.state
		if got := stopped(); got != step.want {
			t.Errorf("at %d s, state %q: reported %t, want %t", now.Unix(), step.state, got, step.want)
		}
	}
}
