// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package scm is the Windows Service Control Manager as the node agent uses
// it: services are declared (Put), started, stopped and queried.
//
// Windows implements Manager; scmtest.Fake does so everywhere, with the refusals of
// the real one, so that everything above is tested on any system.
//
// States and error codes: learn.microsoft.com/windows/win32/services (read
// 2026-11) and golang.org/x/sys/windows v0.47.0.
package scm

import (
	"errors"
	"time"
)

// Service is the declared configuration of a service.
type Service struct {
	Name        string
	DisplayName string
	Description string
	// Argv is the command line; Argv[0] is an absolute path. It is stored
	// quoted (an unquoted path with spaces is a way to become SYSTEM).
	Argv []string
	// Manual services start only on request; others start with Windows.
	Manual bool
	// RestartAfter is how long the manager itself waits before it restarts a
	// service whose process ended without reporting SERVICE_STOPPED (its
	// "failure action"). Zero: it does not.
	RestartAfter time.Duration
}

// State is the state of a service, as in SERVICE_STATUS_PROCESS.dwCurrentState.
type State uint32

// The states; values of winsvc.h.
const (
	Stopped         State = 1
	StartPending    State = 2
	StopPending     State = 3
	Running         State = 4
	ContinuePending State = 5
	PausePending    State = 6
	Paused          State = 7
)

func (s State) String() string {
	names := map[State]string{
		Stopped: "stopped", StartPending: "start pending", StopPending: "stop pending", Running: "running",
		ContinuePending: "continue pending", PausePending: "pause pending", Paused: "paused",
	}
	if n, ok := names[s]; ok {
		return n
	}
	return "unknown"
}

// Status is the current state of a service.
type Status struct {
	State State
	// PID of its process; 0 without a process.
	PID uint32
	// Alive is set if the process PID exists. A manager may still report Running
	// for a process that was killed a moment ago.
	Alive bool
}

// Up reports whether the service is running, paused or changing between the two, or starting.
func (s Status) Up() bool {
	switch s.State {
	case Running, StartPending, ContinuePending, PausePending, Paused:
		return s.Alive
	}
	return false
}

// Errors of a Manager, wrapped with the service's name. Windows' own codes are
// in the comments.
var (
	ErrNotFound        = errors.New("the service does not exist")         // ERROR_SERVICE_DOES_NOT_EXIST 1060
	ErrAlreadyRunning  = errors.New("the service is already running")     // ERROR_SERVICE_ALREADY_RUNNING 1056
	ErrNotRunning      = errors.New("the service has not been started")   // ERROR_SERVICE_NOT_ACTIVE 1062
	ErrMarkedForDelete = errors.New("the service is marked for deletion") // ERROR_SERVICE_MARKED_FOR_DELETE 1072
)

// Manager is the service control manager. Its methods return at once: starting
// and stopping go on after Start and Stop have returned.
type Manager interface {
	// Status returns the state of a service, or ErrNotFound.
	Status(name string) (Status, error)
	// Put creates the service or changes it to match s, and reports whether
	// anything changed. A running process is not touched.
	Put(s Service) (changed bool, err error)
	// Start starts the service; ErrAlreadyRunning if its process lives.
	Start(name string) error
	// Stop sends the service a stop request; ErrNotRunning if it is stopped.
	Stop(name string) error
	// Kill ends the process of a service that does not obey.
	Kill(name string) error
	// Delete removes the service. It disappears when its process has ended.
	Delete(name string) error
}
