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

// TestPurgeKeepsOthers: what a crash left mounted in the directory of a cluster is not removed with it.
func TestPurgeKeepsOthers(t *testing.T) {
	testenv.Need(t, testenv.Root)
	other, l := filepath.Join(t.TempDir(), "precious"), Layout{DataDir: t.TempDir(), Name: "default"}
	at := filepath.Join(l.Dir(), "nodes", "linux-1", "volume")
	for _, dir := range []string{other, at} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(other, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, on := range []string{at, l.Dir()} {
		if err := unix.Mount(other, on, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := Purge(l); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(other, "a")); err != nil {
		t.Error(err)
	}
}
