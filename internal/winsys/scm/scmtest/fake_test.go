// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package scmtest_test

import (
	"errors"
	"testing"

	"github.com/mullion-k8s/mullion/internal/winsys/scm"
	"github.com/mullion-k8s/mullion/internal/winsys/scm/scmtest"
)

// TestRules checks the fake against the rules of the real manager; each error
// is the one that Windows documents for the call.
func TestRules(t *testing.T) {
	m := scmtest.NewFake()
	if _, err := m.Status("a"); !errors.Is(err, scm.ErrNotFound) {
		t.Errorf("status of nothing: %v", err)
	}
	put := func(s scm.Service, want bool) {
		t.Helper()
		if changed, err := m.Put(s); err != nil || changed != want {
			t.Errorf("put %s: changed %v, %v; want %v", s.Name, changed, err, want)
		}
	}
	put(scm.Service{Name: "a", Argv: []string{`C:\a.exe`}}, true)
	put(scm.Service{Name: "a", Argv: []string{`C:\a.exe`}}, false)
	put(scm.Service{Name: "a", Argv: []string{`C:\b.exe`}}, true)

	if err := m.Stop("a"); !errors.Is(err, scm.ErrNotRunning) {
		t.Errorf("stop of a stopped service: %v", err)
	}
	if err := m.Start("a"); err != nil {
		t.Errorf("start: %v", err)
	}
	if got := m.Dump(); got != "create a\nchange a\nstart a" {
		t.Errorf("operations:\n%s", got)
	}
	if err := m.Start("a"); !errors.Is(err, scm.ErrAlreadyRunning) {
		t.Errorf("second start: %v", err)
	}
	if err := m.Delete("a"); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := m.Put(scm.Service{Name: "a"}); !errors.Is(err, scm.ErrMarkedForDelete) {
		t.Errorf("put of a service that is being deleted: %v", err)
	}
	if err := m.Stop("a"); err != nil {
		t.Errorf("stop: %v", err)
	}
	if _, err := m.Status("a"); !errors.Is(err, scm.ErrNotFound) {
		t.Errorf("a deleted service outlived its process: %v", err)
	}
}

func TestAKilledProcessIsNotUp(t *testing.T) {
	for _, stale := range []bool{false, true} {
		m := scmtest.NewFake()
		m.Stale = stale
		if _, err := m.Put(scm.Service{Name: "a"}); err != nil {
			t.Fatal(err)
		}
		if err := m.Start("a"); err != nil {
			t.Fatal(err)
		}
		if err := m.Kill("a"); err != nil {
			t.Fatal(err)
		}
		st, err := m.Status("a")
		if err != nil || st.Up() {
			t.Errorf("stale=%v: %+v, %v; want it down", stale, st, err)
		}
		if err := m.Start("a"); err != nil {
			t.Errorf("stale=%v: start after a crash: %v", stale, err)
		}
	}
}

func TestFake(t *testing.T) {
	for _, stale := range []bool{false, true} {
		m := scmtest.NewFake()
		m.Stale = stale
		scmtest.Run(t, m, scm.Service{Name: "a", DisplayName: "A", Argv: []string{`C:\a.exe`}, Manual: true})
	}
}
