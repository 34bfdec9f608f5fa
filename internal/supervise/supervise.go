// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package supervise runs a set of components that depend on each other: it starts them in
// waves, waits for each to be ready, restarts components that end, and stops them in the
// reverse order.
//
// A component is data and one blocking function; Child returns such a function
// for a program.
//
// # Lifecycle
//
//	waiting ──needs are ready──▶ starting ──Ready returns nil──▶ ready
//	                                ▲  │                           │
//	                                │  └────── Run returned ◀──────┘ or it did not answer for a minute
//	                                ├── after a back-off ── restarting
//	                                └── never ── failed (Run returned a Permanent error)
//	(any) ──context cancelled──▶ stopping ──Run returned──▶ stopped
package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/mullion-k8s/mullion/internal/logkey"
)

// Component is one thing to keep running.
type Component struct {
	// Name is the name that users type in `mullion logs NAME`.
	Name string
	// Needs names components that must be ready before this one starts. If one of
	// them stops later, this one keeps running: Kubernetes' components reconnect.
	Needs []string
	// Uses names components that this one talks to but starts without. They are
	// stopped after it.
	Uses []string
	// Run blocks until the component has ended. When the context is cancelled, the
	// component stops and Run returns.
	Run func(ctx context.Context) error
	// Ready returns nil once the component works; it is called until then. If
	// Ready is nil, the component is ready as soon as it runs.
	Ready func(ctx context.Context) error
	// Changed rings when Ready may have another result. It is nil for a program that cannot notify
	// us, such as an upstream one, which is polled.
	Changed *Bell
	// Alive returns nil if the component, which has been ready, still responds. One that does not respond for
	// long is frozen, and is restarted, see Health. After a Permanent error no restart of it would help. If Alive
	// is nil, there is no check.
	Alive func(ctx context.Context) error
	// Once marks a preparation step: it is ready when Run has returned nil, and it
	// is not run again. If Run returns an error, it is retried.
	Once bool
}

// State is the state of a component, as `mullion status` prints it.
type State string

// The states of the diagram above.
const (
	Waiting    State = "waiting"
	Starting   State = "starting"
	Ready      State = "ready"
	Restarting State = "restarting"
	Failed     State = "failed"
	Stopping   State = "stopping"
	Stopped    State = "stopped"
)

// permanentError is the error of Permanent.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks an error of Run that another run would return again: the component
// is not restarted.
func Permanent(err error) error { return permanentError{err} }

// Status is the status of one component.
type Status struct {
	Name     string    `json:"name"`
	State    State     `json:"state"`
	Since    time.Time `json:"since"`
	Restarts int       `json:"restarts"`
	// Message is the last error, or "".
	Message string `json:"message,omitempty"`
	// Frozen is the last restart of a component that did not respond.
	Frozen *Freeze `json:"frozen,omitempty"`
}

// Config of a Supervisor.
type Config struct {
	Components []Component
	// OnChange is called with all components' states after each change, in the
	// order of Components, never concurrently. It must not block for long.
	OnChange func([]Status)
	// OnFrozen, if not nil, is called when the component with the name is restarted because it did not respond;
	// hopeless means that restarts do not help. It must not block.
	OnFrozen func(name, message string, hopeless bool)
	Log      *slog.Logger
}

// Supervisor runs the components of its Config. See Run.
type Supervisor struct {
	cfg Config          // Components excepted: see all
	ctx context.Context // of Run, nil before; guarded by mu

	mu       sync.Mutex
	all      []*running // guarded by mu; in the order of Config, then of Add
	stopping bool       // guarded by mu
}

// running is a component with its state in the supervisor.
type running struct {
	Component
	status  Status        // guarded by Supervisor.mu
	ready   chan struct{} // closed when the component is ready for the first time
	stopped chan struct{} // closed when the component has ended for good
	cancel  context.CancelFunc
	health  Health // used by the goroutine that runs the component
}

// Times of restarts and checks. A component that ran for longer than stable before it
// ended is restarted at once; otherwise the wait doubles from first to last. The figures
// are kubelet's crash-loop back-off (10 s doubling to 5 min) scaled to processes on one
// machine that a user is waiting for.
const (
	firstWait = 250 * time.Millisecond
	lastWait  = 10 * time.Second
	stable    = 20 * time.Second
	// pollEvery is the longest pause between two calls of Ready. With a bell it only makes good for a lost report, and
	// renews a message with the reason from a log.
	pollEvery       = 100 * time.Millisecond
	pollBesidesBell = 5 * time.Second
)

// New checks the graph: every need is known and there is no cycle.
func New(cfg Config) (*Supervisor, error) {
	if _, err := plan(cfg.Components); err != nil {
		return nil, err
	}
	s := &Supervisor{cfg: cfg}
	for _, c := range cfg.Components {
		s.all = append(s.all, newRunning(c))
	}
	return s, nil
}

func newRunning(c Component) *running {
	return &running{Component: c, status: Status{Name: c.Name, State: Waiting, Since: time.Now()},
		ready: make(chan struct{}), stopped: make(chan struct{})}
}

// Add starts one more component while the supervisor runs.
func (s *Supervisor) Add(c Component) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var cs []Component
	for _, r := range s.all {
		cs = append(cs, r.Component)
	}
	if _, err := plan(append(cs, c)); err != nil {
		return err
	}
	r := newRunning(c)
	s.all = append(s.all, r)
	if s.ctx != nil && !s.stopping {
		s.start(r)
	}
	return nil
}

// Remove stops a component that no other needs or uses, waits until it has ended, and
// forgets it.
func (s *Supervisor) Remove(name string) error {
	s.mu.Lock()
	var gone *running
	for _, r := range s.all {
		if r.Name == name {
			gone = r
		}
		if slices.Contains(below(r.Component), name) {
			s.mu.Unlock()
			return fmt.Errorf("remove component %q: %q needs it", name, r.Name)
		}
	}
	var cancel context.CancelFunc
	if gone != nil {
		cancel = gone.cancel
	}
	s.mu.Unlock()
	if cancel == nil {
		return fmt.Errorf("remove component %q: it does not run", name)
	}
	s.set(gone, Stopping, nil, false)
	cancel()
	<-gone.stopped
	s.mu.Lock()
	defer s.mu.Unlock()
	// Run may be stopping the components of the old slice.
	s.all = slices.DeleteFunc(slices.Clone(s.all), func(r *running) bool { return r == gone })
	s.publish()
	return nil
}

// start gives the component its own context, so that components can be stopped
// in the order of the graph instead of all at once.
// Preconditions: s.mu is held.
func (s *Supervisor) start(r *running) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.ctx))
	r.cancel = cancel
	go func() {
		defer close(r.stopped)
		s.keepRunning(ctx, r)
	}()
}

// Run starts the components and blocks until the context is cancelled and all
// of them have ended, dependants first.
func (s *Supervisor) Run(ctx context.Context) error {
	s.mu.Lock()
	s.ctx = ctx
	for _, r := range s.all {
		s.start(r)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.stopping = true
	all := s.all
	s.mu.Unlock()
	var cs []Component
	for _, r := range all {
		cs = append(cs, r.Component)
	}
	waves, err := plan(cs) // checked when each was added
	for _, wave := range slices.Backward(waves) {
		for _, i := range wave {
			s.set(all[i], Stopping, nil, false)
			all[i].cancel()
		}
		for _, i := range wave {
			<-all[i].stopped
		}
	}
	return err
}

// keepRunning runs a component until its context is cancelled.
func (s *Supervisor) keepRunning(ctx context.Context, i *running) {
	defer s.set(i, Stopped, nil, false)
	c := i.Component
	for _, n := range c.Needs {
		select {
		case <-s.find(n).ready:
		case <-ctx.Done():
			return
		}
	}
	log := s.cfg.Log.With(logkey.Component, c.Name)
	wait := firstWait
	var last error // why it ended the last time
	for restarts := 0; ; restarts++ {
		began := time.Now()
		s.set(i, Starting, last, restarts > 0)
		err := s.once(ctx, i, last)
		if ctx.Err() != nil {
			return
		}
		if c.Once && err == nil {
			s.set(i, Ready, nil, false)
			s.markReady(i)
			<-ctx.Done()
			return
		}
		if err == nil {
			err = errors.New("exited unexpectedly")
		}
		if time.Since(began) > stable {
			wait = firstWait
		}
		last = err
		if _, permanent := errors.AsType[permanentError](err); permanent {
			s.set(i, Failed, err, false)
			log.Error("component failed, and is not restarted", logkey.Error, err)
			<-ctx.Done()
			return
		}
		s.set(i, Restarting, err, false)
		log.Warn("component ended, restarting", logkey.Error, err, logkey.Wait, wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		wait = min(2*wait, lastWait)
	}
}

// once runs a component one time, marks it ready on the way, and ends it if it is frozen. last is the
// reason for its previous end, or nil.
func (s *Supervisor) once(ctx context.Context, i *running, last error) (err error) {
	c := i.Component
	rctx, cancel := context.WithCancelCause(ctx)
	var probes sync.WaitGroup
	if !c.Once {
		probes.Go(func() {
			s.awaitReady(rctx, i, last)
			cancel(s.awaitFrozen(rctx, i))
		})
	}
	defer func() {
		if frozen := context.Cause(rctx); frozen != nil && ctx.Err() == nil {
			err = frozen
		}
		cancel(nil)
		probes.Wait()
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return c.Run(rctx)
}

// awaitFrozen checks a component until the context ends or the component is frozen, and returns the reason.
func (s *Supervisor) awaitFrozen(ctx context.Context, i *running) error {
	i.health.Started()
	for i.Alive != nil {
		wait, limit := i.health.Next(time.Now())
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
		cctx, cancel := context.WithTimeout(ctx, limit)
		err := i.Alive(cctx)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		now := time.Now()
		_, hopeless := errors.AsType[permanentError](err)
		silent := i.health.Observe(now, err)
		if silent == 0 && !hopeless {
			continue
		}
		message := FrozenMessage(i.Name, silent)
		if hopeless {
			message = err.Error()
		}
		s.mu.Lock()
		i.status.Frozen = &Freeze{now, message}
		s.mu.Unlock()
		if s.cfg.OnFrozen != nil {
			s.cfg.OnFrozen(i.Name, message, hopeless || i.health.Hopeless())
		}
		return fmt.Errorf("%s: %w", message, err)
	}
	<-ctx.Done()
	return ctx.Err()
}

// awaitReady calls Ready until it returns nil. A component that ends again and again is
// mostly starting: its state keeps the reason for its end.
func (s *Supervisor) awaitReady(ctx context.Context, i *running, ended error) {
	c := i.Component
	every := pollEvery
	if c.Changed != nil {
		every = pollBesidesBell
	}
	var last string
	err := Await(ctx, c.Changed, every, func() error {
		if c.Ready == nil {
			return nil
		}
		err := c.Ready(ctx)
		if err != nil && err.Error() != last && ctx.Err() == nil {
			last = err.Error()
			shown := err
			if ended != nil {
				shown = fmt.Errorf("%w; the last time: %w", err, ended)
			}
			s.set(i, Starting, shown, false)
		}
		return err
	})
	if err == nil && ctx.Err() == nil {
		s.set(i, Ready, nil, false)
		s.markReady(i)
	}
}

func (s *Supervisor) markReady(r *running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-r.ready:
	default:
		close(r.ready)
	}
}

func (s *Supervisor) find(name string) *running {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.all {
		if r.Name == name {
			return r
		}
	}
	panic("supervise: no component " + name) // plan has checked every need
}

func (s *Supervisor) set(r *running, st State, err error, restarted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &r.status
	if x.State == Stopping && st != Stopped {
		return
	}
	if x.State != st {
		x.Since = time.Now()
	}
	x.State = st
	x.Message = ""
	if err != nil {
		x.Message = err.Error()
	}
	if restarted {
		x.Restarts++
	}
	s.publish()
}

// publish reports the states.
// Preconditions: s.mu is held.
func (s *Supervisor) publish() {
	if s.cfg.OnChange == nil {
		return
	}
	var all []Status
	for _, r := range s.all {
		all = append(all, r.status)
	}
	s.cfg.OnChange(all)
}
