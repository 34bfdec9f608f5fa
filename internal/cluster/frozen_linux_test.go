// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/supervise"
)

// TestNotStopped: a process passes until a signal stops it, passes again when it continues, and after its end.
func TestNotStopped(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	defer func() { <-ended }()
	defer cmd.Process.Kill() //nolint:errcheck // it may have ended
	go func() { defer close(ended); _ = cmd.Wait() }()
	alive := notStopped(func() []int { return []int{0, cmd.Process.Pid} })
	await := func(signal syscall.Signal, want string) {
		t.Helper()
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := supervise.Await(t.Context(), nil, time.Millisecond, func() error {
			err := alive(t.Context())
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				return errors.New("not yet")
			}
			return nil
		}); err != nil {
			t.Errorf("after %v: %v, want %q", signal, alive(t.Context()), want)
		}
	}
	await(syscall.SIGSTOP, "a signal has stopped process")
	await(syscall.SIGCONT, "")
	await(syscall.SIGKILL, "")
}
