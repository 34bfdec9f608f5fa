// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package logfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mullion-k8s/mullion/internal/agent/logfile"
)

func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "x.log")
	l, err := logfile.Open(path, 20, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if i == 5 { // an existing file is continued
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if l, err = logfile.Open(path, 20, 2); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := fmt.Fprintf(l, "line %d..\n", i); err != nil { // 9 bytes: two per file
			t.Fatal(err)
		}
	}
	// A line longer than the limit is not lost.
	long := fmt.Sprintf("%030d\n", 7)
	if _, err := l.Write([]byte(long)); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		path: long, path + ".1": "line 8..\nline 9..\n", path + ".2": "line 6..\nline 7..\n",
	} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", filepath.Base(name), got, err, want)
		}
	}
	if _, err := os.Stat(path + ".3"); err == nil {
		t.Error("more files are kept than asked for")
	}
}
