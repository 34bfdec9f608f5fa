// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package durable_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/durable"
)

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	for _, content := range []string{"one", "two, longer", ""} {
		if err := durable.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Errorf("content %q, %v; want %q", got, err, content)
		}
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("files %v, %v; want no temporary ones", left, err)
	}
	err = durable.WriteFile(filepath.Join(dir, "no", "such"), nil, 0o600)
	if err == nil || !strings.Contains(err.Error(), "write ") {
		t.Errorf("missing directory: %v", err)
	}
}

func TestFailedWriteKeepsTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "d")
	// A directory cannot be replaced by a file: the rename fails.
	if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(path, []byte("new"), 0o600); err == nil {
		t.Fatal("replaced a directory")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("files %v, %v; want the temporary one removed", left, err)
	}
}

// TestWriteFileAfterATornWrite: what a crash during a write leaves beside the
// file changes nothing.
func TestWriteFileAfterATornWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for name, content := range map[string]string{"file": "old", ".file.tmp-1": "ne"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("content %q, %v", got, err)
	}
	if err := durable.WriteFile(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "new" {
		t.Errorf("content %q, %v", got, err)
	}
}
