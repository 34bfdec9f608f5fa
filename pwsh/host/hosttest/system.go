// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hosttest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

// System is a System in memory.
type System struct {
	Name    string // of the machine
	User    string
	Home    string
	Account host.Identity
	Running []host.ProcessInfo
	Known   []host.ServiceInfo
	Version string // of Windows, such as 10.0.20348.2402
	Boot    time.Time
	// Width and Height are the console's size; 0 means that there is no console.
	Width, Height int
	// Total and Free are of physical memory, in bytes.
	Total, Free int64
}

// PID returns the process id 4242.
func (*System) PID() int { return 4242 }

// Hostname returns Name.
func (s *System) Hostname() string { return s.Name }

// UserName returns User.
func (s *System) UserName() string { return s.User }

// Identity returns Account.
func (s *System) Identity() (host.Identity, error) { return s.Account, nil }

// ConsoleSize returns Width and Height.
func (s *System) ConsoleSize() (width, height int, ok bool) { return s.Width, s.Height, s.Width > 0 }

// HomeDir returns Home.
func (s *System) HomeDir() string { return s.Home }

// OSVersion returns Version.
func (s *System) OSVersion() string { return s.Version }

// Processes returns Running.
func (s *System) Processes(context.Context) ([]host.ProcessInfo, error) {
	return slices.Clone(s.Running), nil
}

// Kill removes a process from Running.
func (s *System) Kill(_ context.Context, pid int) error {
	n := len(s.Running)
	s.Running = slices.DeleteFunc(s.Running, func(p host.ProcessInfo) bool { return p.ID == pid })
	if len(s.Running) == n {
		return fmt.Errorf("no process %d", pid)
	}
	return nil
}

// Services returns Known.
func (s *System) Services(context.Context) ([]host.ServiceInfo, error) {
	return slices.Clone(s.Known), nil
}

// ControlService changes the state of a service. Each verb is done at once.
func (s *System) ControlService(_ context.Context, name, verb string) error {
	for i := range s.Known {
		if s.Known[i].Name == name {
			s.Known[i].Status = map[string]string{"start": "Running", "restart": "Running", "stop": "Stopped"}[verb]
			return nil
		}
	}
	return fmt.Errorf("cannot open %s service on computer '.'", name)
}

// ProcessorCount returns 4.
func (*System) ProcessorCount() int { return 4 }

// Memory returns Total and Free.
func (s *System) Memory() (total, free int64) { return s.Total, s.Free }

// BootTime returns Boot.
func (s *System) BootTime() time.Time { return s.Boot }
