// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package scmtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mullion-k8s/mullion/internal/winsys/scm"
)

// Fake is an scm.Manager in memory with the rules of the real one: a deleted
// service stays until its process has ended.
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
	scm.Service
	status  scm.Status
	deleted bool
}

// NewFake returns a manager without services.
func NewFake() *Fake { return &Fake{services: map[string]*fakeService{}, nextPID: 1000} }

func (f *Fake) get(name string) (*fakeService, error) {
	s, ok := f.services[name]
	if !ok {
		return nil, fmt.Errorf("service %s: %w", name, scm.ErrNotFound)
	}
	return s, nil
}

// Status implements scm.Manager.
func (f *Fake) Status(name string) (scm.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.get(name)
	if err != nil {
		return scm.Status{}, err
	}
	return s.status, nil
}

// Put implements scm.Manager.
func (f *Fake) Put(s scm.Service) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, ok := f.services[s.Name]
	switch {
	case ok && old.deleted:
		return false, fmt.Errorf("service %s: %w", s.Name, scm.ErrMarkedForDelete)
	case ok && equal(old.Service, s):
		return false, nil
	case ok:
		f.log = append(f.log, "change "+s.Name)
		old.Service = s
	default:
		f.log = append(f.log, "create "+s.Name)
		f.services[s.Name] = &fakeService{Service: s, status: scm.Status{State: scm.Stopped}}
	}
	return true, nil
}

func equal(a, b scm.Service) bool {
	return a.Name == b.Name && a.DisplayName == b.DisplayName && a.Description == b.Description &&
		slices.Equal(a.Argv, b.Argv) &&
		a.Manual == b.Manual && a.RestartAfter == b.RestartAfter
}

// Start implements scm.Manager.
func (f *Fake) Start(name string) error {
	f.mu.Lock()
	s, err := f.get(name)
	switch {
	case err != nil:
	case s.deleted:
		err = fmt.Errorf("start service %s: %w", name, scm.ErrMarkedForDelete)
	case s.status.Up():
		err = fmt.Errorf("start service %s: %w", name, scm.ErrAlreadyRunning)
	}
	if err != nil {
		f.mu.Unlock()
		return err
	}
	f.mu.Unlock()
	if f.OnStart != nil {
		if err := f.OnStart(name); err != nil {
			return fmt.Errorf("start service %s: %w", name, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nextPID += 4
	s.status = scm.Status{State: scm.Running, PID: f.nextPID, Alive: true}
	f.log = append(f.log, "start "+name)
	return nil
}

// Stop implements scm.Manager.
func (f *Fake) Stop(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.get(name)
	if err != nil {
		return err
	}
	if !s.status.Up() {
		s.status = scm.Status{State: scm.Stopped}
		return fmt.Errorf("stop service %s: %w", name, scm.ErrNotRunning)
	}
	s.status = scm.Status{State: scm.Stopped}
	f.log = append(f.log, "stop "+name)
	f.sweep(s)
	return nil
}

// Kill implements scm.Manager. Tests use it as the crash of a process, too.
func (f *Fake) Kill(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.get(name)
	if err != nil {
		return err
	}
	if s.status.PID == 0 {
		return fmt.Errorf("kill service %s: %w", name, scm.ErrNotRunning)
	}
	f.log = append(f.log, "kill "+name)
	if f.Stale {
		s.status.Alive = false
	} else {
		s.status = scm.Status{State: scm.Stopped}
	}
	f.sweep(s)
	return nil
}

// Delete implements scm.Manager.
func (f *Fake) Delete(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.get(name)
	if err != nil {
		return err
	}
	if s.deleted {
		return fmt.Errorf("delete service %s: %w", name, scm.ErrMarkedForDelete)
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
