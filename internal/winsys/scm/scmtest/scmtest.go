// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package scmtest tests the required behaviour of every scm.Manager. It runs
// against Fake everywhere and against the real manager on Windows and under Wine.
package scmtest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/winsys/scm"
)

// patience bounds the wait for a state: Windows gives a service 30 s to start.
const patience = 30 * time.Second

// Run checks a manager with a service that runs until it is stopped. The
// service must not exist; afterwards it does not exist again.
func Run(t *testing.T, m scm.Manager, s scm.Service) {
	t.Helper()
	if _, err := m.Status(s.Name); !errors.Is(err, scm.ErrNotFound) {
		t.Fatalf("status before it is made: %v", err)
	}
	if changed, err := m.Put(s); err != nil || !changed {
		t.Fatalf("put: %v, %v", changed, err)
	}
	if changed, err := m.Put(s); err != nil || changed {
		t.Errorf("put of the same: changed %v, %v", changed, err)
	}
	s.DisplayName += " (changed)"
	s.Argv = append(slices.Clip(s.Argv), `an "odd" argument`, "")
	if changed, err := m.Put(s); err != nil || !changed {
		t.Errorf("put of a change: changed %v, %v", changed, err)
	}
	if changed, err := m.Put(s); err != nil || changed {
		t.Errorf("put of the changed again: changed %v, %v", changed, err)
	}
	if err := m.Stop(s.Name); !errors.Is(err, scm.ErrNotRunning) {
		t.Errorf("stop of a stopped service: %v", err)
	}
	first := start(t, m, s.Name)
	if err := m.Start(s.Name); !errors.Is(err, scm.ErrAlreadyRunning) {
		t.Errorf("second start: %v", err)
	}
	if err := m.Kill(s.Name); err != nil {
		t.Fatalf("kill: %v", err)
	}
	await(t, m, s.Name, "down after a kill", func(st scm.Status) bool { return !st.Up() })
	if second := start(t, m, s.Name); second == first {
		t.Errorf("process %d again", second)
	}
	if err := m.Stop(s.Name); err != nil {
		t.Errorf("stop: %v", err)
	}
	await(t, m, s.Name, "stopped", func(st scm.Status) bool { return st.State == scm.Stopped && !st.Alive })
	if err := m.Delete(s.Name); err != nil {
		t.Errorf("delete: %v", err)
	}
	// The manager keeps a marked service until all handles of it are closed, its own among them.
	err := m.Delete(s.Name)
	for deadline := time.Now().Add(patience); errors.Is(err, scm.ErrMarkedForDelete) && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
		err = m.Delete(s.Name)
	}
	if !errors.Is(err, scm.ErrNotFound) {
		t.Errorf("second delete: %v", err)
	}
}

func start(t *testing.T, m scm.Manager, name string) (pid uint32) {
	t.Helper()
	if err := m.Start(name); err != nil {
		t.Fatalf("start: %v", err)
	}
	st := await(t, m, name, "running", func(st scm.Status) bool { return st.State == scm.Running && st.Alive })
	return st.PID
}

func await(t *testing.T, m scm.Manager, name, what string, ok func(scm.Status) bool) scm.Status {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		st, err := m.Status(name)
		if err == nil && ok(st) {
			return st
		}
		if time.Now().After(deadline) {
			t.Fatalf("not %s: %+v, %v", what, st, err)
		}
	}
}
