// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, tc := range []struct {
		name, content string
		tail          int
		want          string
	}{
		{"all", "a\nb\n", -1, "a\nb\n"},
		{"none", "a\nb\n", 0, ""},
		{"last", "a\nb\nc\n", 1, "c\n"},
		{"last without newline", "a\nb\nc", 2, "b\nc"},
		{"more than there are", "a\nb\n", 9, "a\nb\n"},
		{"a line longer than a block", "a\n" + long + "\nc\n", 2, long + "\nc\n"},
		{"empty file", "", 3, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.log")
			if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := printLog(t.Context(), &b, path, tc.tail, false); err != nil || b.String() != tc.want {
				t.Errorf("got %d bytes, %v; want %d", b.Len(), err, len(tc.want))
			}
		})
	}
}
