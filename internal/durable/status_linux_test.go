// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestStatusOnAFullDisk replaces a status document when its disk has no block left.
func TestStatusOnAFullDisk(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	if err := unix.Mount("full", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	type status struct{ Message string }
	path := filepath.Join(dir, "status.json")
	if err := durable.WriteStatus(path, status{"ready"}); err != nil {
		t.Fatal(err)
	}
	ballast := make([]byte, 4096)
	f, err := os.Create(filepath.Join(dir, "ballast"))
	for err == nil {
		_, err = f.Write(ballast)
	}
	if closed := f.Close(); closed != nil || !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err, closed)
	}
	for _, message := range []string{"the disk is full", "full"} {
		if err := durable.WriteStatus(path, status{message}); err != nil {
			t.Fatal(err)
		}
		got, err := durable.ReadStatus[status](path)
		if err != nil || got.Message != message {
			t.Errorf("%q, %v, want %q", got.Message, err, message)
		}
	}
	if err := durable.WriteStatus(path, status{strings.Repeat("x", 1<<16)}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a document without room: %v", err)
	}
	if got, err := durable.ReadStatus[status](path); err != nil || got.Message != "full" {
		t.Errorf("after it: %q, %v", got.Message, err)
	}
	if err := durable.WriteStatus(filepath.Join(dir, "new.json"), status{}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a new document: %v", err)
	}
}
