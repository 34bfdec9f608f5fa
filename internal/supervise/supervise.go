// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package supervise runs a set of components that depend on each other: it
// starts them in waves, waits for each to be ready, restarts those that end,
// and stops them in the reverse order.
//
// It knows nothing of what a component is. A component is data plus one
// blocking function; Child makes such a function of a program.
//
// # Lifecycle
//
//	waiting ──needs are ready──▶ starting ──Ready returns nil──▶ ready
//	                                ▲  │                           │
//	                                │  └────── Run returned ◀──────┘
//	                                └── after a back-off ── restarting
//	(any) ──context cancelled──▶ stopping ──Run returned──▶ stopped
package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mullion-k8s/mullion/internal/logkey"
)

// Component is one thing to keep running.
type Component struct {
	// Name is what users type in `mullion logs NAME`.
	Name string
	// Needs names components that must be ready before this one starts. A
	// component that it needs going down later does not stop it: Kubernetes'
	// parts reconnect by themselves.
	Needs []string
	// Run blocks until the component has ended. A cancelled context asks it to
	// stop; Run returns when it has.
	Run func(ctx context.Context) error
	// Ready returns nil once the component does its work, and is asked again
	// until then. Nil means ready as soon as it runs.
	Ready func(ctx context.Context) error
	// Once marks a preparation step: it is ready when Run has returned nil and
	// it is not run again. An error of it is retried like any other end.
	Once bool
}

// State of a component, in the words that `mullion status` prints.
type State string

// The states of the diagram above.
const (
	Waiting    State = "waiting"
	Starting   State = "starting"
	Ready      State = "ready"
	Restarting State = "restarting"
	Stopping   State = "stopping"
	Stopped    State = "stopped"
)

// Status is what is known of one component.
type Status struct {
	Name     string    `json:"name"`
	State    State     `json:"state"`
	Since    time.Time `json:"since"`
	Restarts int       `json:"restarts"`
	// Message is the last error, empty when there is none.
	Message string `json:"message,omitempty"`
}

// Config of a Supervisor.
type Config struct {
	Components []Component
	// OnChange is called with all components' states after each change, in the
	// order of Components, never concurrently. It must not block for long.
	OnChange func([]Status)
	Log      *slog.Logger
}

// Supervisor runs the components of its Config. See Run.
type Supervisor struct {
	cfg     Config
	waves   [][]int
	ready   []chan struct{} // closed when the component is ready for the first time
	stopped []chan struct{} // closed when the component has ended for good

	mu     sync.Mutex
	states []Status // guarded by mu
}

// Times of restarting and asking. A component that ran for longer than
// stable before it ended is restarted at once; otherwise the wait doubles from
// first to last. The figures are kubelet's crash-loop back-off (10 s doubling
// to 5 min) scaled to processes on one machine that a user is waiting for.
const (
	firstWait = 250 * time.Millisecond
	lastWait  = 10 * time.Second
	stable    = 20 * time.Second
	askEvery  = 50 * time.Millisecond
)

// New checks the graph: every need is known and there is no cycle.
func New(cfg Config) (*Supervisor, error) {
	waves, err := plan(cfg.Components)
	if err != nil {
		return nil, err
	}
	s := &Supervisor{cfg: cfg, waves: waves}
	now := time.Now()
	for _, c := range cfg.Components {
		s.ready = append(s.ready, make(chan struct{}))
		s.stopped = append(s.stopped, make(chan struct{}))
		s.states = append(s.states, Status{Name: c.Name, State: Waiting, Since: now})
	}
	return s, nil
}

// Run starts the components and blocks until the context is cancelled and all
// of them have ended, dependants first.
func (s *Supervisor) Run(ctx context.Context) error {
	// Each component has a context of its own, so that stopping can follow the
	// order of the graph instead of happening all at once.
	cancels := make([]context.CancelFunc, len(s.cfg.Components))
	for i := range s.cfg.Components {
		cctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancels[i] = cancel
		go func() {
			defer close(s.stopped[i])
			s.keep(cctx, i)
		}()
	}
	<-ctx.Done()
	for w := len(s.waves) - 1; w >= 0; w-- {
		for _, i := range s.waves[w] {
			s.set(i, Stopping, nil, false)
			cancels[i]()
		}
		for _, i := range s.waves[w] {
			<-s.stopped[i]
		}
	}
	return nil
}

// keep runs component i until its context is cancelled.
func (s *Supervisor) keep(ctx context.Context, i int) {
	defer s.set(i, Stopped, nil, false)
	c := s.cfg.Components[i]
	for _, n := range c.Needs {
		select {
		case <-s.ready[s.index(n)]:
		case <-ctx.Done():
			return
		}
	}
	log := s.cfg.Log.With(logkey.Component, c.Name)
	wait := firstWait
	for restarts := 0; ; restarts++ {
		began := time.Now()
		s.set(i, Starting, nil, restarts > 0)
		err := s.once(ctx, i)
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
			err = errors.New("ended without being asked to")
		}
		if time.Since(began) > stable {
			wait = firstWait
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

// once is one life of component i: it runs it and marks it ready on the way.
func (s *Supervisor) once(ctx context.Context, i int) (err error) {
	c := s.cfg.Components[i]
	rctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	if !c.Once {
		asking.Go(func() { s.ask(rctx, i) })
	}
	defer func() {
		cancel()
		asking.Wait()
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return c.Run(ctx)
}

// ask polls Ready until it returns nil.
func (s *Supervisor) ask(ctx context.Context, i int) {
	c := s.cfg.Components[i]
	var last string
	for c.Ready != nil {
		err := c.Ready(ctx)
		if err == nil {
			break
		}
		if msg := err.Error(); msg != last && ctx.Err() == nil {
			last = msg
			s.set(i, Starting, err, false)
		}
		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
			return
		}
	}
	if ctx.Err() == nil {
		s.set(i, Ready, nil, false)
		s.markReady(i)
	}
}

func (s *Supervisor) markReady(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.ready[i]:
	default:
		close(s.ready[i])
	}
}

func (s *Supervisor) index(name string) int {
	for i, c := range s.cfg.Components {
		if c.Name == name {
			return i
		}
	}
	return -1 // unreachable: plan has checked every need
}

func (s *Supervisor) set(i int, st State, err error, restarted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &s.states[i]
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
	if s.cfg.OnChange != nil {
		s.cfg.OnChange(append([]Status(nil), s.states...))
	}
}
