// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestRefuse: the reason is for the server. It appears in the output only if the server would not learn it.
func TestRefuse(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		name, dir, status string
		want              string
	}{
		{"status", dir, "s", ""},
		{"no status", dir, "", "mullion-init: ping -t: no\n"},
		{"no directory", filepath.Join(dir, "gone"), "s", "mullion-init: ping -t: no\nwrite status: " +
			"no such file or directory\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			c := Config{Args: []string{"ping", "-t"}, StatusDir: tt.dir, StatusName: tt.status}
			code := refuse(c, errors.New("no"), &out)
			if code != exitNoStart || out.String() != tt.want {
				t.Errorf("code %d, output %q, want %q", code, out.String(), tt.want)
			}
		})
	}
	if text, err := os.ReadFile(filepath.Join(dir, "s")); err != nil || !bytes.Contains(text, []byte(`"no"`)) {
		t.Errorf("status %s, %v", text, err)
	}
}
