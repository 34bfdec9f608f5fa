// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wrap_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/agent/wrap"
)

// TestMain lets the test binary be the wrapped program.
func TestMain(m *testing.M) {
	if os.Getenv("WRAPPED") != "" {
		os.Stdout.WriteString("to stdout\n")
		os.Stderr.WriteString("to stderr\n")
		os.Exit(7)
	}
	os.Exit(m.Run())
}

func TestRun(t *testing.T) {
	log := filepath.Join(t.TempDir(), "logs", "x.log")
	t.Setenv("WRAPPED", "1")
	code, err := wrap.Run(t.Context(), wrap.Program{Argv: []string{os.Args[0]}, Log: log})
	if err != nil || code != 7 {
		t.Errorf("exit code %d, %v; want 7", code, err)
	}
	missing := wrap.Program{Argv: []string{filepath.Join(t.TempDir(), "missing")}, Log: log}
	if _, err := wrap.Run(t.Context(), missing); err == nil {
		t.Error("a program that does not exist ran")
	}
	got, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"starting", "to stdout", "to stderr", "ended: exit status 7", "not started"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the log lacks %q:\n%s", want, got)
		}
	}
}
