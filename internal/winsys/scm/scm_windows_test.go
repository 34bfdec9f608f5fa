// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package scm_test

import (
	"os"
	"testing"

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
