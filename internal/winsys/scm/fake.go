// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package scm

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Fake is a Manager in memory with the rules of the real one: dependencies are
// started first, a service with running dependents refuses to stop, a deleted
// one stays until its process has ended.
type Fake struct {
	// Stale makes the manager report Running after a process was killed, as
	// some managers do permanently and all do for a moment.
	Stale bool
	// OnStart, if set, decides whether a process comes up; it is called with the
	// lock released.
	OnStart func(name string) error

	mu       sync.Mutex
	services map[string]*fakeService // guarded by mu
	nextPID  uint32                  // guarded by mu
	log      []string                // guarded by mu
}

type fakeService struct {
	Service
	status  Status
	deleted bool
}

// NewFake returns a manager without services.
func NewFake() *Fake { return &Fake{services: map[string]*fakeService{}, nextPID: 1000} }

func (f *Fake) get(name string) (*fakeService, error) {
	s, ok := f.services[name]
	if !ok {
		return nil, fmt.Errorf("service %s: %w", name, ErrNotFound)
	}
	return s, nil
}

// Status implements Manager.
func (f *Fake) Status(name string) (Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.get(name)
	if err != nil {
		return Status{}, err
	}
	return s.status, nil
}

// Put implements Manager.
func (f *Fake) Put(s Service) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, ok := f.services[s.Name]
	switch {
	case ok && old.deleted:
		return false, fmt.Errorf("service %s: %w", s.Name, ErrMarkedForDelete)
	case ok && equal(old.Service, s):
		return false, nil
	case ok:
		f.log = append(f.log, "change "+s.Name)
		old.Service = s
	default:
		f.log = append(f.log, "create "+s.Name)
		f.services[s.Name] = &fakeService{Service: s, status: Status{State: Stopped}}
	}
	return true, nil
}

func equal(a, b Service) bool {
	return a.Name == b.Name && a.DisplayName == b.DisplayName && a.Description == b.Description &&
		slices.Equal(a.Argv, b.Argv) &&
		a.Manual == b.Manual && slices.Equal(a.DependsOn, b.DependsOn) && a.RestartAfter == b.RestartAfter
}

// Start implements Manager.
func (f *Fake) Start(name string) error {
	f.mu.Lock()
	s, err := f.get(name)
	switch {
	case err != nil:
	case s.deleted:
		err = fmt.Errorf("start service %s: %w", name, ErrMarkedForDelete)
	case s.status.Up():
		err = fmt.Errorf("start service %s: %w", name, ErrAlreadyRunning)
	}
	if err != nil {
		f.mu.Unlock()
		return err
	}
	needs := slices.Clone(s.DependsOn)
	f.mu.Unlock()
	for _, n := range needs {
		if st, err := f.Status(n); err != nil {
			return fmt.Errorf("start service %s: dependency: %w", name, err)
		} else if !st.Up() {
			if err := f.Start(n); err != nil {
				return fmt.Errorf("start service %s: dependency: %w", name, err)
			}
		}
	}
	if f.OnStart != nil {
		if err := f.OnStart(name); err != nil {
			return fmt.Errorf("start service %s: %w", name, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nextPID += 4
	s.status = Status{State: Running, PID: f.nextPID, Alive: true}
	f.log = append(f.log, "start "+name)
	return nil
}

// Stop implements Manager.
func (f *Fake) Stop(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.get(name)
	if err != nil {
		return err
	}
	if !s.status.Up() {
		s.status = Status{State: Stopped}
		return fmt.Errorf("stop service %s: %w", name, ErrNotRunning)
	}
	for _, other := range f.services {
		if other.status.Up() && slices.Contains(other.DependsOn, name) {
			return fmt.Errorf("stop service %s: %w: %s", name, ErrDependentsRunning, other.Name)
		}
	}
	s.status = Status{State: Stopped}
	f.log = append(f.log, "stop "+name)
	f.sweep(s)
	return nil
}

// Kill implements Manager. Tests use it as the crash of a process, too.
func (f *Fake) Kill(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.get(name)
	if err != nil {
		return err
	}
	if s.status.PID == 0 {
		return fmt.Errorf("kill service %s: %w", name, ErrNotRunning)
	}
	f.log = append(f.log, "kill "+name)
	if f.Stale {
		s.status.Alive = false
	} else {
		s.status = Status{State: Stopped, ExitCode: 1067} // ERROR_PROCESS_ABORTED
	}
	f.sweep(s)
	return nil
}

// Delete implements Manager.
func (f *Fake) Delete(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.get(name)
	if err != nil {
		return err
	}
	if s.deleted {
		return fmt.Errorf("delete service %s: %w", name, ErrMarkedForDelete)
	}
	s.deleted = true
	f.log = append(f.log, "delete "+name)
	f.sweep(s)
	return nil
}

// sweep removes a deleted service whose process has ended.
// Preconditions: f.mu is held.
func (f *Fake) sweep(s *fakeService) {
	if s.deleted && !s.status.Up() {
		delete(f.services, s.Name)
	}
}

// Dump lists the operations so far, one per line, and clears the list.
func (f *Fake) Dump() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := strings.Join(f.log, "\n")
	f.log = nil
	return out
}
