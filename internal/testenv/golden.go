// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package testenv

import (
	"bytes"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// updating is the -update flag of the go command's golden-file convention. It
// is registered here once, because two packages registering it would clash.
var updating = flag.Bool("update", false, "rewrite golden files")

// Golden compares got with the named file under testdata, or rewrites that
// file when the test runs with -update.
func Golden(t testing.TB, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *updating {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read golden file: %v (run the test with -update to make it)", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (run with -update if the change is meant)\n%s", path, diff(string(want), string(got)))
	}
}

// Archives yields the golden archives that a pattern matches, each with its file's name
// without ".txtar". If there are no archives, the test fails.
func Archives(t testing.TB, pattern string) iter.Seq2[string, *txtar.Archive] {
	return func(yield func(string, *txtar.Archive) bool) {
		t.Helper()
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no golden archives %s, %v", pattern, err)
		}
		for _, file := range files {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !yield(strings.TrimSuffix(filepath.Base(file), ".txtar"), ar) {
				return
			}
		}
	}
}

// diff shows the first differing line with a little context; goldens are read
// as files, so more is not needed.
func diff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := 0; i < max(len(w), len(g)); i++ {
		lw, lg := "<end>", "<end>"
		if i < len(w) {
			lw = w[i]
		}
		if i < len(g) {
			lg = g[i]
		}
		if lw != lg {
			return fmt.Sprintf("line %d\n- %s\n+ %s", i+1, lw, lg)
		}
	}
	return ""
}
