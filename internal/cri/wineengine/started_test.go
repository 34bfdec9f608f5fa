// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wineengine

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestStarted: however long init takes, its report decides. Each of these is late by more
// than two seconds, after which a program once counted as started.
func TestStarted(t *testing.T) {
	const late = "sleep 2.5; "
	for _, tt := range []struct{ name, script, want string }{
		{"refused", late + `echo '{"exit_code":127,"error":"no"}' >new; mv new main; exec sleep 1000`, "no"},
		{"refused and ended", late + `echo '{"exit_code":127,"error":"no"}' >new; mv new main`, "no"},
		{"started", late + `touch .started; exec sleep 1000`, ""},
		{"started and ended", late + `touch .started; echo '{"exit_code":3}' >new; mv new main`, ""},
		{"ended without the marker", late + `echo '{"exit_code":3}' >main; exec sleep 1000`, ""},
		{"killed", late + "kill -9 $$", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			init := exec.CommandContext(t.Context(), "sh", "-c", tt.script)
			init.Dir = dir
			if err := init.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = init.Process.Kill(), init.Wait() }) // it may have ended
			err := (Engine{}).Started(t.Context(), init.Process.Pid, filepath.Join(dir, "main"))
			if err == nil && tt.want != "" || err != nil && err.Error() != tt.want {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestStartedGivesUp: a call that was given up does not wait for a report.
func TestStartedGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(context.DeadlineExceeded)
	init := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := init.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = init.Process.Kill(), init.Wait() })
	err := (Engine{}).Started(ctx, init.Process.Pid, filepath.Join(t.TempDir(), "main"))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
