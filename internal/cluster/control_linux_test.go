// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"slices"
	"testing"

	"github.com/mullion-k8s/mullion/internal/supervise"
)

// TestUnready: who waits for a cluster is told what is missing, and what the missing wait for.
func TestUnready(t *testing.T) {
	rows := []Row{{Name: ServerName}, {Name: "win-1"}}
	seen := map[string]supervise.Status{
		FabricName: {Name: FabricName, State: supervise.Restarting, Message: "no such device"},
		ServerName: {Name: ServerName, State: supervise.Waiting},
		"win-1":    {Name: "win-1", State: supervise.Starting, Message: "not registered"},
	}
	if got, want := unready(rows, seen), "server (waiting), win-1 (starting: not registered)"; got != want {
		t.Errorf("unready: %q, want %q", got, want)
	}
	if got, want := causes(rows, seen), []string{"network (restarting: no such device)"}; !slices.Equal(got, want) {
		t.Errorf("causes: %q, want %q", got, want)
	}
}
