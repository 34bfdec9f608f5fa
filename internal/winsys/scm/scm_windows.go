// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package scm

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

var (
	errDisabled          = errors.New("the service cannot be started")          // ERROR_SERVICE_DISABLED 1058
	errDependentsRunning = errors.New("services that depend on it are running") // ERROR_DEPENDENT_SERVICES_RUNNING 1051
)

// Windows is the machine's own service control manager.
type Windows struct {
	m *mgr.Mgr
}

// Connect opens the manager; it needs an administrator's rights.
func Connect() (*Windows, error) {
	m, err := mgr.Connect()
	if err != nil {
		return nil, fmt.Errorf("connect to the service control manager: %w", err)
	}
	return &Windows{m}, nil
}

// Close ends the connection.
func (w *Windows) Close() error { return w.m.Disconnect() }

// explain maps Windows' codes onto the package's errors.
func explain(verb, name string, err error) error {
	codes := map[syscall.Errno]error{
		windows.ERROR_SERVICE_DOES_NOT_EXIST:     ErrNotFound,
		windows.ERROR_SERVICE_ALREADY_RUNNING:    ErrAlreadyRunning,
		windows.ERROR_SERVICE_NOT_ACTIVE:         ErrNotRunning,
		windows.ERROR_SERVICE_MARKED_FOR_DELETE:  ErrMarkedForDelete,
		windows.ERROR_DEPENDENT_SERVICES_RUNNING: errDependentsRunning,
		windows.ERROR_SERVICE_DISABLED:           errDisabled,
	}
	if err == nil {
		return nil
	}
	var code syscall.Errno
	if errors.As(err, &code) && codes[code] != nil {
		err = codes[code]
	}
	return fmt.Errorf("%s service %s: %w", verb, name, err)
}

func (w *Windows) open(verb, name string) (*mgr.Service, error) {
	s, err := w.m.OpenService(name)
	return s, explain(verb, name, err)
}

// Status implements Manager.
func (w *Windows) Status(name string) (Status, error) {
	s, err := w.open("query", name)
	if err != nil {
		return Status{}, err
	}
	defer s.Close()
	st, err := s.Query()
	if err != nil {
		return Status{}, explain("query", name, err)
	}
	return Status{State: State(st.State), PID: st.ProcessId, Alive: alive(st.ProcessId)}, nil
}

func alive(pid uint32) bool {
	if pid == 0 {
		return false
	}
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, pid)
	if err != nil {
		// Only a process that does not exist has an invalid parameter.
		return !errors.Is(err, windows.ERROR_INVALID_PARAMETER)
	}
	defer windows.CloseHandle(h)
	event, err := windows.WaitForSingleObject(h, 0)
	return err != nil || event == uint32(windows.WAIT_TIMEOUT)
}

// Put implements Manager.
func (w *Windows) Put(want Service) (bool, error) {
	s, err := w.m.OpenService(want.Name)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return true, w.create(want)
	}
	if err != nil {
		return false, explain("open", want.Name, err)
	}
	defer s.Close()
	have, err := config(s.Handle)
	if err != nil {
		return false, explain("query", want.Name, err)
	}
	line := windows.ComposeCommandLine(want.Argv)
	if have == (stored{commandLine: line, displayName: want.DisplayName, startType: startType(want)}) {
		return false, nil
	}
	return true, explain("change", want.Name, change(s.Handle, want, line))
}

func startType(s Service) uint32 {
	if s.Manual {
		return windows.SERVICE_DEMAND_START
	}
	return windows.SERVICE_AUTO_START
}

func (w *Windows) create(want Service) error {
	s, err := w.m.CreateService(want.Name, want.Argv[0], mgr.Config{
		DisplayName: want.DisplayName, Description: want.Description, StartType: startType(want),
		ErrorControl: mgr.ErrorNormal,
	}, want.Argv[1:]...)
	if err != nil {
		return explain("create", want.Name, err)
	}
	defer s.Close()
	if want.RestartAfter == 0 {
		return nil
	}
	action := mgr.RecoveryAction{Type: mgr.ServiceRestart, Delay: want.RestartAfter}
	return explain("set failure actions of", want.Name,
		s.SetRecoveryActions([]mgr.RecoveryAction{action, action, action}, uint32(time.Hour/time.Second)))
}

func change(h windows.Handle, want Service, line string) error {
	binary, err := windows.UTF16PtrFromString(line)
	if err != nil {
		return err
	}
	display, err := windows.UTF16PtrFromString(want.DisplayName)
	if err != nil {
		return err
	}
	return windows.ChangeServiceConfig(h, windows.SERVICE_NO_CHANGE, startType(want), windows.SERVICE_NO_CHANGE, binary,
		nil, nil, nil, nil, nil, display)
}

// Start implements Manager.
func (w *Windows) Start(name string) error {
	s, err := w.open("start", name)
	if err != nil {
		return err
	}
	defer s.Close()
	return explain("start", name, s.Start())
}

// Stop implements Manager.
func (w *Windows) Stop(name string) error {
	s, err := w.open("stop", name)
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.Control(svc.Stop)
	return explain("stop", name, err)
}

// Kill implements Manager.
func (w *Windows) Kill(name string) error {
	st, err := w.Status(name)
	if err != nil {
		return err
	}
	if !st.Alive {
		return fmt.Errorf("kill service %s: %w", name, ErrNotRunning)
	}
	h, err := windows.OpenProcess(windows.PROCESS_TERMINATE, false, st.PID)
	if err != nil {
		return explain("kill", name, err)
	}
	defer windows.CloseHandle(h)
	return explain("kill", name, windows.TerminateProcess(h, 1))
}

// Delete implements Manager.
func (w *Windows) Delete(name string) error {
	s, err := w.open("delete", name)
	if err != nil {
		return err
	}
	defer s.Close()
	return explain("delete", name, s.Delete())
}

// stored is a service's configuration as the manager has it.
type stored struct {
	commandLine, displayName string
	startType                uint32
}
