// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

func TestEnterArgv(t *testing.T) {
	got := strings.Join(enterArgv(42, Program{Argv: []string{"/bin/a", "b c"}, GID: 7}), " ")
	want := "nsenter --target 42 --mount --uts --ipc --net --pid --cgroup --root --wd " +
		"--setuid 0 --setgid 7 -- /bin/a b c"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestRunningInit: a status counts only while the process that wrote it lives.
func TestRunningInit(t *testing.T) {
	dir := t.TempDir()
	status := filepath.Join(dir, "status.json")
	if _, err := RunningInit(dir, status); !errors.Is(err, ErrDown) {
		t.Errorf("never started: %v", err)
	}
	s := Status{PID: os.Getpid(), InitPID: 42, Phase: Running}
	if err := supervise.WriteStatus(status, s); err != nil {
		t.Fatal(err)
	}
	if _, err := RunningInit(dir, status); !errors.Is(err, ErrDown) {
		t.Errorf("ended: %v", err)
	}
	lock, err := durable.TryLock(filepath.Join(dir, "lock"), durable.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	if pid, err := RunningInit(dir, status); pid != 42 || err != nil {
		t.Errorf("running: %d, %v", pid, err)
	}
	s.Phase = Stopping
	if err := supervise.WriteStatus(status, s); err != nil {
		t.Fatal(err)
	}
	if _, err := RunningInit(dir, status); !errors.Is(err, ErrDown) {
		t.Errorf("stopping: %v", err)
	}
}
