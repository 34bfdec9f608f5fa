// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hostprocess

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// FuzzGroups: whatever a container has written where net.exe keeps groups, the
// built-in ones are there.
func FuzzGroups(f *testing.F) {
	for _, s := range []string{`{"groups":{"hpc":["a"]}}`, `{"groups":{"":null}}{`, `{"groups":[]}`, `null`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h := &Host{Drive: t.TempDir()}
		file := filepath.Join(h.Drive, accountsFile)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		groups := h.groups()
		for _, g := range builtinGroups() {
			if !slices.Contains(groups, g) {
				t.Errorf("%s is missing in %q", g, groups)
			}
		}
	})
}
