// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

const serviceName = "mullion-probe"

// services creates, starts, queries, stops and removes a service: this program.
func services(t *probe) {
	m, err := mgr.Connect()
	t.must(err)
	exe, err := os.Executable()
	t.must(err)
	s, err := m.CreateService(serviceName, exe, mgr.Config{
		DisplayName: "Probe", StartType: mgr.StartManual, Description: "answers",
	}, "service", "an argument")
	t.must(err)
	if _, err := m.CreateService(serviceName, exe, mgr.Config{}); !errors.Is(err, windows.ERROR_SERVICE_EXISTS) {
		t.errorf("CreateService again: %v", err)
	}
	c, err := s.Config()
	if err != nil || c.DisplayName != "Probe" || c.StartType != mgr.StartManual {
		t.errorf("Config: %+v %v", c, err)
	}
	t.must(s.Start())
	expectState(t, s, svc.Running)
	if st, err := s.Query(); err != nil || st.ProcessId == 0 {
		t.errorf("Query: %+v %v", st, err)
	}
	if err := s.Start(); !errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
		t.errorf("Start again: %v", err)
	}
	if _, err := s.Control(svc.Stop); err != nil {
		t.errorf("Control: %v", err)
	}
	expectState(t, s, svc.Stopped)
	t.must(s.Delete())
	t.must(s.Close())
	endsEarly(t, m, exe)
	if _, err := m.OpenService("no-such-service"); !errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		t.errorf("OpenService: %v", err)
	}
	t.must(m.Disconnect())
}

// endsEarly has a service whose process ends before it reports that it has stopped.
func endsEarly(t *probe, m *mgr.Mgr, exe string) {
	s, err := m.CreateService(serviceName+"-early", exe, mgr.Config{StartType: mgr.StartManual}, "service", "early")
	t.must(err)
	t.must(s.Start())
	expectState(t, s, svc.Running)
	_, err = s.Control(svc.Stop)
	t.must(err)
	expectState(t, s, svc.Stopped)
	t.must(s.Delete())
	t.must(s.Close())
}

// expectState waits, because SCM reports a change when the service does.
func expectState(t *probe, s *mgr.Service, want svc.State) {
	deadline := time.Now().Add(30 * time.Second) // SCM's own limit for a start
	for {
		st, err := s.Query()
		if err == nil && st.State == want {
			return
		}
		if time.Now().After(deadline) {
			t.errorf("state %v %v, want %v", st.State, err, want)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// service is the program that services starts.
func service(t *probe) {
	t.must(svc.Run(serviceName, handler{}))
}

type handler struct{}

func (handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	for r := range requests {
		switch r.Cmd {
		case svc.Interrogate:
			status <- r.CurrentStatus
		case svc.Stop, svc.Shutdown:
			status <- svc.Status{State: svc.StopPending}
			if os.Args[len(os.Args)-1] == "early" {
				time.Sleep(100 * time.Millisecond) // the report is on its way
				os.Exit(1)
			}
			return false, 0
		}
	}
	return false, 0
}
