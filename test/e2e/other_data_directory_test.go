// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOtherDataDirectory: a cluster that would take the addresses or the name of
// a running one of another data directory is refused, and neither `up` nor
// `down` of it touches the other.
func TestOtherDataDirectory(t *testing.T) {
	c := up(t)
	var first struct {
		Index int `json:"index"`
	}
	readJSON(t, filepath.Join(c.dir, "clusters", c.name, "cluster.json"), &first)
	pods := func() string {
		return c.kubectl(t, "get", "nodes", "-o",
			`jsonpath={range .items[*]}{.metadata.name}{.metadata.uid}{.status.nodeInfo.bootID}{"\n"}{end}`)
	}
	before := pods()
	for _, tc := range []struct {
		what, name string
		index      int
		want       string
	}{
		{"addresses", "neighbour", first.Index, "take addresses"},
		{"name", c.name, 22, "take cluster name"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			other := newSingle(t, tc.name, t.TempDir(), tc.index)
			out, err := other.command(t.Context(), "up").CombinedOutput()
			if err == nil || !strings.Contains(string(out), tc.want) ||
				!strings.Contains(string(out), "another data directory (process ") {
				t.Errorf("up: %v: %s", err, out)
			}
			other.mullion("down", "--purge")
			if _, err := os.Stat(filepath.Join(other.dataDir, "clusters")); !os.IsNotExist(err) {
				t.Errorf("after down --purge: %v", err)
			}
		})
	}
	// Without its table on the machine, pods reach the machine.
	if out, err := exec.Command("nft", "list", "table", "ip", "mullion-"+c.name).CombinedOutput(); err != nil {
		t.Errorf("the cluster's table: %v: %s", err, out)
	}
	c.mullion(t, "status") // fails unless everything is ready
	if after := pods(); after != before {
		t.Errorf("nodes before:\n%s\nafter:\n%s", before, after)
	}
}
