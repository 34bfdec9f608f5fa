// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/lint"
)

// TestPipeWithoutWriter opens a pipe without a writer. The run ends with its context.
func TestPipeWithoutWriter(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, once := range []bool{true, false} {
		in := lint.File(pipe)
		in.Once = once
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := lint.Run(ctx, lint.Config{Inputs: []lint.Input{in}}, func(lint.Result) error { return nil })
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("once %t: %v, want the context's error", once, err)
		}
	}
	// The goroutines that open the pipe end.
	w, err := unix.Open(pipe, unix.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(w) // nothing was written
}

// TestEndlessDevice reads a device that has no end.
func TestEndlessDevice(t *testing.T) {
	var messages []string
	cfg := lint.Config{Inputs: []lint.Input{lint.File("/dev/zero")}}
	_, err := lint.Run(t.Context(), cfg, func(r lint.Result) error {
		messages = append(messages, r.Code+" "+r.Message)
		return nil
	})
	if err != nil || len(messages) != 1 || !strings.HasPrefix(messages[0], "WIN904") {
		t.Errorf("%q, %v, want WIN904", messages, err)
	}
}
