// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package scm_test

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/windows/svc"

	"github.com/mullion-k8s/mullion/internal/winsys/scm"
	"github.com/mullion-k8s/mullion/internal/winsys/scm/scmtest"
)

const testService = "mullion-scm-test"

// TestMain lets the test binary be the service.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "service" {
		if svc.Run(testService, handler{}) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

type handler struct{}

func (handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop}
	for r := range requests {
		if r.Cmd == svc.Stop {
			break
		}
		status <- r.CurrentStatus
	}
	status <- svc.Status{State: svc.StopPending}
	return false, 0
}

func TestTheMachinesManager(t *testing.T) {
	m, err := scm.Connect()
	if err != nil {
		t.Skip(err) // not an administrator
	}
	defer m.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	scmtest.Run(t, m, scm.Service{
		Name:        testService,
		DisplayName: "mullion test",
		Argv:        []string{exe, "service"},
		Manual:      true,
	})
}

// TestKilledService: the manager notices the end of a service's process.
func TestKilledService(t *testing.T) {
	m, err := scm.Connect()
	if err != nil {
		t.Skip(err) // not an administrator
	}
	defer m.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Put(scm.Service{Name: testService, Argv: []string{exe, "service"}, Manual: true}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Delete(testService); err != nil {
			t.Error(err)
		}
	}()
	until := func(state scm.State) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			st, err := m.Status(testService)
			if err == nil && st.State == state && st.Alive == (state == scm.Running) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("not %s: %+v, %v", state, st, err)
			}
		}
	}
	for range 2 {
		if err := m.Start(testService); err != nil {
			t.Fatal(err)
		}
		until(scm.Running)
		if err := m.Kill(testService); err != nil {
			t.Fatal(err)
		}
		until(scm.Stopped)
	}
}
