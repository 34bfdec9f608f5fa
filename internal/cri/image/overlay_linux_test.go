// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// mountOverlay mounts lower directories below a writable one until the test ends.
func mountOverlay(t *testing.T, lower, work string) string {
	t.Helper()
	merged := filepath.Join(work, "merged")
	for _, d := range []string{"upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(work, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	options := "lowerdir=" + lower + ",upperdir=" + filepath.Join(work, "upper") + ",workdir=" + filepath.Join(work, "work")
	if err := syscall.Mount("overlay", merged, "overlay", 0, options); err != nil {
		t.Fatalf("mount overlay: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(merged, 0); err != nil {
			t.Error(err)
		}
	})
	return merged
}

func mountTmpfs(t *testing.T, dir, options string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatalf("mount tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}

func ownerOf(t *testing.T, name string) int {
	t.Helper()
	st, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	return int(st.Sys().(*syscall.Stat_t).Uid)
}
