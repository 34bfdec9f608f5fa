// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write makes a package of one file.
func write(t *testing.T, source string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a_test.go"), []byte("package a\n"+source), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestGroups(t *testing.T) {
	got, err := read(write(t, `
func TestMain(m *testing.M) { m.Run() }
func TestB(t *testing.T) { t.Parallel(); c := up(t, "2022"); c.use() }
func TestA(t *testing.T) { up(t) }
func TestC(t *testing.T) { c := alone(t); c.use() }
func TestD(t *testing.T) { t.Parallel(); dir := ownCluster(t); use(dir) }
func TestE(t *testing.T) { noCluster(t) }
func testF(t *testing.T) {}
func up(t *testing.T, builds ...string) *shared { return nil }
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"shared": {"TestB", "TestA", "TestE"}, "alone": {"TestC"}, "own": {"TestD"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWrongDeclarations(t *testing.T) {
	for name, tc := range map[string]struct{ source, want string }{
		"missing": {`func TestA(t *testing.T) { t.Parallel() }`, "TestA declares no group"},
		"empty":   {`func TestA(t *testing.T) {}`, "TestA declares no group"},
		"later":   {`func TestA(t *testing.T) { use(); up(t) }`, "TestA does not declare its group first"},
		"before t.Parallel": {`func TestA(t *testing.T) { c := alone(t); t.Parallel(); c.use() }`,
			"TestA is alone, so it cannot be parallel"},
		"shared before t.Parallel": {`func TestA(t *testing.T) { c := up(t); t.Parallel(); c.use() }`,
			"TestA declares its group before t.Parallel"},
		"parallel": {`func TestA(t *testing.T) { t.Parallel(); c := alone(t); c.use() }`, "TestA is alone"},
		"in a helper": {`func TestA(t *testing.T) { c := newLab(t); c.use() }
func newLab(t *testing.T) *lab { return &lab{up(t)} }`, "a_test.go:3:46: a test's group is declared here"},
		"two": {`func TestA(t *testing.T) { c := up(t); d := alone(t); c.use(d) }`, "a test's group is declared here"},
		"within another call": {`func TestA(t *testing.T) { c := newLab(up(t)); c.use() }`,
			"TestA does not declare its group first"},
		"syntax": {`func TestA(`, "expected"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := read(write(t, tc.source)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
