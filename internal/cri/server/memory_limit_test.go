// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReplaceNumber: whatever the programs of a container have put into their directory, the number comes there, and
// nothing outside of the directory changes.
func TestReplaceNumber(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(outside, []byte("old"), 0o600))
	for name, prepare := range map[string]func(file string) error{
		"nothing": func(string) error { return nil },
		"link":    func(file string) error { return os.Symlink(outside, file) },
		"pipe":    func(file string) error { return unix.Mkfifo(file, 0o600) },
		"number":  func(file string) error { return replaceNumber(file, 6) },
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), memoryFile)
			must(t, prepare(file))
			if name != "number" {
				must(t, prepare(file+".new"))
			}
			must(t, replaceNumber(file, 5))
			if got, err := os.ReadFile(file); err != nil || string(got) != "5" {
				t.Errorf("%q, %v", got, err)
			}
			must(t, replaceNumber(file, 0))
			if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the file is left: %v", err)
			}
		})
	}
	if got, err := os.ReadFile(outside); err != nil || string(got) != "old" {
		t.Errorf("outside: %q, %v", got, err)
	}
}
