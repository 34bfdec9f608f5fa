// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package testenv

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Cache returns a directory for files that take seconds to make and are the same in all
// tests: Wine's runtime, the prefixes and the stand-ins. As on a user's machine, it
// outlives its users, and several processes may fill it at once. If the code that makes
// such files changes, the directory changes, so that tests don't use files made by old
// code.
func Cache(t testing.TB) string {
	t.Helper()
	h := sha256.New()
	for _, dir := range []string{"internal/wine", "internal/standin", "internal/winsys/winver"} {
		files, err := filepath.Glob(Repo(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(h, filepath.Base(file)) // a hash never fails
			_, _ = h.Write(content)
		}
	}
	return Bin(".cache", "test-"+hex.EncodeToString(h.Sum(nil))[:16])
}
