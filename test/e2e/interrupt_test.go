// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

// TestInterruptedUp ends `up` with Ctrl-C at several moments. It stops what it
// started, so nothing is left; and the next `up` makes a whole cluster of what
// it finds.
func TestInterruptedUp(t *testing.T) {
	t.Parallel()
	dir := ownCluster(t)
	s := newSingle(t, "interrupted", dir, 20)
	for _, most := range []time.Duration{50 * time.Millisecond, 300 * time.Millisecond, time.Second, 2 * time.Second,
		4 * time.Second} {
		after := most/2 + rand.N(most/2)
		cmd := s.command(t.Context(), "up")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(after)
		if err := cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			// It was done before: the cluster runs, and that is right.
			s.mullion("down")
		}
		s.traces().none(t, "interrupted after "+after.String())
	}
	s.mullion("up")
	if out := s.mullion("kubectl", "get", "node", "win-1", "-o",
		"jsonpath={.status.nodeInfo.osImage}"); !strings.Contains(out, "2019") {
		t.Errorf("the node says it is %q", out)
	}
	s.mullion("down", "--purge")
	s.traces().none(t, "in the end")
	if _, err := os.Stat(s.dir()); !os.IsNotExist(err) {
		t.Errorf("the cluster's directory is still there: %v", err)
	}
}
