// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

func TestRun(t *testing.T) {
	in, err := os.ReadFile("testdata/bench.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = run("testdata/goals.txt", bytes.NewReader(in), &out)
	if want := "2 goals are missed by more than their tolerance, 2 were not measured"; err == nil ||
		err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	met := "BenchmarkExec-2 1 69.95 p99-ms\n"
	if err := run("testdata/met.txt", strings.NewReader(met), io.Discard); err != nil {
		t.Error(err)
	}
	echoed, table, ok := strings.Cut(out.String(), "PASS\n")
	if !ok || echoed+"PASS\n" != string(in) {
		t.Errorf("the input was not printed: %q", echoed)
	}
	testenv.Golden(t, "table.golden", []byte(table))
}

// TestGoals: the goals of make bench, and of its stable part, can be read.
func TestGoals(t *testing.T) {
	for _, file := range []string{"goals.txt", "counts.txt"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if goals, err := parseGoals(string(text)); err != nil || len(goals) == 0 {
			t.Errorf("%s: %d goals, %v", file, len(goals), err)
		}
	}
}

func TestParseGoals(t *testing.T) {
	for _, text := range []string{"A ms", "A ms < 1", "A ms <= soon", "A ms / <= 1", "A ms / s x 1",
		"A ms <= 1 within 5", "A ms <= 1 within -5%"} {
		goals, err := parseGoals("# a comment\n\n" + text)
		if err == nil || !strings.HasPrefix(err.Error(), "line 3: ") {
			t.Errorf("%q: %v, %v", text, goals, err)
		}
	}
}
