// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestExitCode(t *testing.T) {
	exited := func(status int) syscall.WaitStatus { return syscall.WaitStatus(status << 8) }
	for _, row := range []struct {
		name   string
		status syscall.WaitStatus
		file   string
		want   uint32
	}{
		{"success", exited(0), "", 0},
		{"success, with another's file", exited(0), "3221225477", 0},
		{"a small code", exited(7), "7", 7},
		{"one that the loader has too", exited(0x35), "53", 0x35},
		{"an exception", exited(5), "3221225477", 0xC0000005},
		{"an exception, with another's file", exited(5), "3221225501", 5},
		{"a code without lowest bits", exited(1), "256", 256},
		{"a missing DLL", exited(0x35), "", 0xC0000135},
		{"a missing function", exited(0x39), "", 0xC0000139},
		{"killed", syscall.WaitStatus(syscall.SIGKILL), "", 1},
		{"killed while it ended", syscall.WaitStatus(syscall.SIGSEGV), "3221225477", 0xC0000005},
		{"a 32-bit system call", syscall.WaitStatus(syscall.SIGSYS), "", 0xC0000005},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, ".exit.12")
		if row.file != "" {
			if err := os.WriteFile(file, []byte(row.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := exitCode(dir, 12, row.status); got != row.want {
			t.Errorf("%s: %#x, want %#x", row.name, got, row.want)
		}
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the file is left: %v", row.name, err)
		}
	}
}
