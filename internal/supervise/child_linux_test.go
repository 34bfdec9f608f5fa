// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package supervise

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestChild(t *testing.T) {
	s := NewSpawner()
	run := func(stop time.Duration, cancelAfterStart bool, script string) (string, error) {
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := s.Child(Command{Argv: []string{"/bin/sh", "-c", script}, Stop: stop, Log: &out, OnStart: func(int) {
			if cancelAfterStart {
				time.AfterFunc(200*time.Millisecond, cancel)
			}
		}})(ctx)
		return out.String(), err
	}
	if out, err := run(time.Second, false, "echo hello; exit 3"); out != "hello\n" || err == nil ||
		!strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("failing program: %q, %v", out, err)
	}
	if out, err := run(30*time.Second, true,
		"trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done"); out != "bye\n" || err == nil {
		t.Errorf("graceful stop: %q, %v", out, err)
	}
	if _, err := run(50*time.Millisecond, true, "trap '' TERM; while :; do sleep 0.05; done"); err == nil {
		t.Error("a program that ignores SIGTERM: want it killed and the context's error")
	}
	if err := s.Child(Command{Argv: []string{"/nonexistent"}})(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "start /nonexistent") {
		t.Errorf("missing program: %v", err)
	}
}

// TestStoppedChildEnds: a program that a signal has stopped still ends by itself.
func TestStoppedChildEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ended")
	ready := filepath.Join(t.TempDir(), "ready")
	ctx, cancel := context.WithCancel(t.Context())
	err := NewSpawner().Child(Command{
		Argv: []string{"/bin/sh", "-c", "trap 'touch " + file + "; exit' TERM; touch " + ready +
			"; while :; do sleep 0.01; done"},
		Stop: time.Minute,
		OnStart: func(pid int) {
			go func() {
				defer cancel()
				err := Await(ctx, nil, 10*time.Millisecond, func() error { _, err := os.Stat(ready); return err })
				if err = errors.Join(err, syscall.Kill(pid, syscall.SIGSTOP)); err != nil {
					t.Error(err)
				}
			}()
		},
	})(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("its handler did not run: %v", err)
	}
}
