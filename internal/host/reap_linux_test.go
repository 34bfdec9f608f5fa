// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestZombies(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := false
	for !found {
		for _, pid := range zombies() {
			found = found || pid == cmd.Process.Pid
		}
		if t.Context().Err() != nil {
			t.Fatal("the dead child was not found")
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("looking at it took its exit status: %v", err)
	}
}

// TestReaperLeavesOwnChildren waits late for a child, as an owner does on a busy machine.
func TestReaperLeavesOwnChildren(t *testing.T) {
	r := NewReaper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.run(ctx) }()
	defer func() { cancel(); <-done }()
	own, orphan := exec.Command("true"), exec.Command("true")
	if err := r.start(own); err != nil {
		t.Fatal(err)
	}
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	for isZombie(orphan.Process.Pid) || unix.Kill(orphan.Process.Pid, 0) == nil {
		time.Sleep(reapEvery / 10) // until it is buried
	}
	if err := own.Wait(); err != nil {
		t.Errorf("wait for the own child: %v", err)
	}
	if out, err := r.CombinedOutput(exec.Command("sh", "-c", "echo a; echo b >&2; exit 3")); err == nil ||
		string(out) != "a\nb\n" {
		t.Errorf("printed %q, %v", out, err)
	}
	r.forget(own.Process.Pid)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.own) != 0 {
		t.Errorf("%d children are still known", len(r.own))
	}
}
