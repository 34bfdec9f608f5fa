// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestGuideDevelop: a folder with a program of Go becomes a running pod, and then another one, by the commands of
// docs/user/develop.md.
func TestGuideDevelop(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	r := newReader(t, c, ns)
	testenv.Compiles(t, "test/e2e/testdata/winprog") // the page's program needs the same packages
	blocks := blocksOf(t, "docs/user/develop.md")
	for _, block := range blocks {
		if block[0] == "package main" {
			text := []byte(strings.Join(block, "\n"))
			if err := os.WriteFile(filepath.Join(r.dir, "main.go"), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	steps := stepsOf(blocks)
	if len(steps) < 10 {
		t.Fatalf("only %d commands: %v", len(steps), steps)
	}
	for _, s := range steps {
		if !strings.HasPrefix(s.command, "curl ") {
			r.follow(t, s)
			continue
		}
		// For a moment, the Service also leads to the pod that ends.
		eventually(t, 30*time.Second, s.command, func() error { return r.differs(t, s) })
	}
}
