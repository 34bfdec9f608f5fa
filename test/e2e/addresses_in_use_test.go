// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAddressesInUse: a cluster whose programs were all killed leaves its link on the machine.
// A new cluster takes other addresses. One that has these says at once why it cannot start.
func TestAddressesInUse(t *testing.T) {
	t.Parallel()
	dir := ownCluster(t)
	const index = 30
	left := newSingle(t, "left", dir, index)
	left.mullion("up")
	left.killAll()

	same := newSingle(t, "same", dir, index)
	out, err := same.command(t.Context(), "up").CombinedOutput()
	for _, want := range []string{"10.89.30.0/24 is in use on this machine", "mln30 (cluster left)",
		"mullion down --name"} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("up with addresses in use: %v: %s; want %q", err, out, want)
		}
	}

	// A data directory whose clusters have all indexes below.
	other := t.TempDir()
	for i := range index {
		name := fmt.Sprintf("c%d", i)
		doc := fmt.Sprintf(`{"apiVersion":"mullion/v1alpha1","name":%q,"index":%d,"windows":["2019"]}`, name, i)
		dir := filepath.Join(other, "clusters", name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cluster.json"), []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next := single{t: t, name: "next", dataDir: other}
	if plan := next.mullion("up", "--dry-run"); !strings.Contains(plan, "link mln31 10.89.31.1/24") {
		t.Errorf("a new cluster does not take the next addresses: %s", plan)
	}

	left.mullion("down", "--purge")
	left.traces().none(t, "in the end")
	if plan := next.mullion("up", "--dry-run"); !strings.Contains(plan, "link mln30 10.89.30.1/24") {
		t.Errorf("a new cluster does not take the free addresses: %s", plan)
	}
}
