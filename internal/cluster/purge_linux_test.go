// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestPurgeMounted: the data directory is a file system of its own, which stays, empty, when the last cluster goes.
func TestPurgeMounted(t *testing.T) {
	testenv.Need(t, testenv.Root)
	l := Layout{DataDir: t.TempDir(), Name: "default"}
	if err := unix.Mount("none", l.DataDir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(l.DataDir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.MkdirAll(filepath.Join(l.Dir(), "etcd"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Purge(l); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(l.DataDir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
