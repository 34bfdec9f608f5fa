// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"bytes"
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
	if err := run("testdata/goals.txt", bytes.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	echoed, table, ok := strings.Cut(out.String(), "PASS\n")
	if !ok || echoed+"PASS\n" != string(in) {
		t.Errorf("the input was not printed: %q", echoed)
	}
	testenv.Golden(t, "table.golden", []byte(table))
}

// TestGoals: the goals of make bench can be read.
func TestGoals(t *testing.T) {
	text, err := os.ReadFile("../../docs/bench/goals.txt")
	if err != nil {
		t.Fatal(err)
	}
	if goals, err := parseGoals(string(text)); err != nil || len(goals) == 0 {
		t.Errorf("%d goals, %v", len(goals), err)
	}
}

func TestParseGoals(t *testing.T) {
	for _, text := range []string{"A ms", "A ms < 1", "A ms <= soon", "A ms / <= 1", "A ms / s x 1"} {
		goals, err := parseGoals("# a comment\n\n" + text)
		if err == nil || !strings.HasPrefix(err.Error(), "line 3: ") {
			t.Errorf("%q: %v, %v", text, goals, err)
		}
	}
}
