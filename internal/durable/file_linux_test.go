// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/durable"
)

// TestWriteFileIsNeverTorn: a reader finds one content or the other, whole.
func TestWriteFileIsNeverTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	contents := []string{strings.Repeat("a", 100_000), strings.Repeat("b", 70_000)}
	if err := durable.WriteFile(path, []byte(contents[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error)
	go func() {
		var err error
		for i := range 50 {
			err = errors.Join(err, durable.WriteFile(path, []byte(contents[i%2]), 0o600))
		}
		written <- err
	}()
	for {
		got, err := os.ReadFile(path)
		if err != nil || !slices.Contains(contents, string(got)) {
			t.Errorf("%d bytes, %v; want one of the contents", len(got), err)
		}
		select {
		case err := <-written:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}
