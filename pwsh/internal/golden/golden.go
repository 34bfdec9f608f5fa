// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package golden compares the results of tests with files, and rewrites these
// files when a test runs with -update.
package golden

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// updating is the -update flag, the go command's convention for golden files.
var updating = flag.Bool("update", false, "rewrite golden files")

// Tail compares everything from the line begin on in the named file with want,
// which includes that line. With -update it replaces that part of the file and
// keeps the text before it.
func Tail(t testing.TB, name, begin, want string) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, tail, found := strings.Cut(string(content), begin)
	if !found {
		t.Fatalf("%s has no line %q", name, strings.TrimSpace(begin))
	}
	got := begin + tail
	switch {
	case got == want:
	case *updating:
		if err := os.WriteFile(name, []byte(head+want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is out of date (run the test with -update if the change is meant)\n%s", name, diff(got, want))
	}
}

// diff shows the first line in which two texts differ.
func diff(old, now string) string {
	o, n := strings.Split(old, "\n"), strings.Split(now, "\n")
	for i := range max(len(o), len(n)) {
		was, is := "<end>", "<end>"
		if i < len(o) {
			was = o[i]
		}
		if i < len(n) {
			is = n[i]
		}
		if was != is {
			return fmt.Sprintf("line %d\n- %s\n+ %s", i+1, was, is)
		}
	}
	return ""
}
