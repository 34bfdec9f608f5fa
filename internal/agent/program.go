// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/supervise"
	"github.com/mullion-k8s/mullion/internal/winsys/scm"
)

// Restart delays. A program that ran for longer than stable is restarted at once;
// otherwise the delay doubles from firstWait to lastWait. This is the kubelet's
// crash-loop back-off with a shorter first delay, because a node whose kubelet is
// down is considered lost after 40 s.
const (
	firstWait = time.Second
	lastWait  = time.Minute
	stable    = 5 * time.Minute
	// declareEvery is the interval between checks of an unchanged service's declaration.
	declareEvery = 30 * time.Second
	// stopLimit is the time for a program to stop before it is killed.
	stopLimit = 20 * time.Second
)

// reconciler keeps one program running as a Windows service.
type reconciler struct {
	scm  scm.Manager
	disk Disk
	now  func() time.Time
	// answers checks that a program responds at an address, and wake lets the agent take the result at once.
	answers func(ctx context.Context, address string) error
	wake    func()

	declared   string    // fingerprint of the program that the manager has as a service
	declaredAt time.Time // when that was last checked

	started  time.Time // of the last start by this reconciler
	wait     time.Duration
	next     time.Time // not started again before
	restarts int
	stopping time.Time

	health   supervise.Health
	pid      uint32     // of the process that health is about
	check    chan error // receives the result of the check that is being made; or is nil
	checkAt  time.Time  // when the next one begins
	frozen   *supervise.Freeze
	recorded bool // an event records it
}

// reconcile declares the service, writes its files and makes sure that it runs with
// the current files. It returns the program's status.
func (r *reconciler) reconcile(p program) (ProgramStatus, error) {
	name := p.Service.Name
	// Whether either of the two changes anything shows in the fingerprint.
	if err := writeFiles(r.disk, p.Files); err != nil {
		return r.status(scm.Status{}, err), err
	}
	print := fingerprint(p)
	if err := r.declare(p, print); err != nil {
		return r.status(scm.Status{}, err), err
	}
	st, err := r.scm.Status(name)
	if err != nil {
		r.declared = "" // it may have been deleted
		return r.status(st, err), err
	}
	old := r.fingerprints()
	stale := st.Up() && old[name] != print
	switch {
	case stale:
		// It runs with an older configuration, perhaps since before this agent was
		// updated.
		err = r.stop(name)
	case st.State == scm.StopPending && st.Alive:
		err = r.killWhenLate(name)
	case st.Up():
		r.stopping = time.Time{}
		if r.started.IsZero() {
			r.started = r.now()
		}
		if err = r.killIfFrozen(p, st.PID); err == nil {
			return r.status(st, nil), nil
		}
	default:
		r.stopping = time.Time{}
		err = r.start(p, old, print)
	}
	if err == nil {
		st, err = r.scm.Status(name)
	}
	return r.status(st, err), err
}

// declare makes sure that the manager has the program as a service. Each check is several calls of the manager, so an
// unchanged program is only checked now and then.
func (r *reconciler) declare(p program, print string) error {
	if r.declared == print && r.now().Sub(r.declaredAt) < declareEvery {
		return nil
	}
	if _, err := r.scm.Put(p.Service); err != nil {
		return err
	}
	r.declared, r.declaredAt = print, r.now()
	return nil
}

// start starts the program unless it has to wait.
func (r *reconciler) start(p program, prints map[string]string, print string) error {
	name := p.Service.Name
	if r.now().Before(r.next) {
		return fmt.Errorf("%s ended; it is started again at %s", name, r.next.UTC().Format("15:04:05Z"))
	}
	if !r.started.IsZero() {
		r.restarts++
		if r.now().Sub(r.started) > stable {
			r.wait = 0
		}
	}
	r.wait = min(max(2*r.wait, firstWait), lastWait)
	r.next = r.now().Add(r.wait)
	// The fingerprint is written first: if we die in between, the program is not
	// running, and the next start uses the files as they are now.
	prints[name] = print
	if err := durable.WriteDocument(r.disk.Path(startedFile), prints); err != nil {
		return err
	}
	err := r.scm.Start(name)
	if errors.Is(err, scm.ErrAlreadyRunning) {
		err = nil // the manager's own failure action was quicker
	}
	r.started = r.now()
	return err
}

func (r *reconciler) stop(name string) error {
	err := r.scm.Stop(name)
	if err == nil || errors.Is(err, scm.ErrNotRunning) {
		r.stopping, r.next, r.wait, r.started = r.now(), time.Time{}, 0, time.Time{}
		return nil
	}
	// A manager that cannot reach the process any more leaves only this.
	if e := r.scm.Kill(name); e != nil {
		return errors.Join(err, e)
	}
	return nil
}

// killWhenLate kills the program if it does not stop in time.
func (r *reconciler) killWhenLate(name string) error {
	if r.stopping.IsZero() {
		r.stopping = r.now()
	}
	if r.now().Sub(r.stopping) < stopLimit {
		return nil
	}
	r.stopping = r.now()
	return r.scm.Kill(name)
}

// killIfFrozen kills a program that has not responded for long. A request to stop would wait for it.
func (r *reconciler) killIfFrozen(p program, pid uint32) error {
	silent := r.observe(p, pid)
	if silent == 0 {
		return nil
	}
	message := supervise.FrozenMessage(p.Service.Name, silent)
	r.frozen, r.recorded = &supervise.Freeze{At: r.now(), Message: message}, false
	return errors.Join(errors.New(message), r.scm.Kill(p.Service.Name))
}

// observe checks in the background whether the program responds, one check at a time. If the program is frozen,
// observe returns the time without a response.
func (r *reconciler) observe(p program, pid uint32) (silent time.Duration) {
	now := r.now()
	if pid != r.pid {
		r.health.Started()
		r.pid, r.check, r.checkAt = pid, nil, now
	}
	select {
	case err := <-r.check:
		r.check = nil
		silent = r.health.Observe(now, err)
		wait, _ := r.health.Next(now)
		r.checkAt = now.Add(wait)
	default:
	}
	if r.check == nil && p.Health != "" && !now.Before(r.checkAt) {
		result := make(chan error, 1)
		r.check = result
		_, limit := r.health.Next(now)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			result <- r.answers(ctx, p.Health)
			r.wake()
		}()
	}
	return silent
}

func (r *reconciler) status(st scm.Status, err error) ProgramStatus {
	s := ProgramStatus{State: st.State.String(), PID: st.PID, Restarts: r.restarts, Frozen: r.frozen,
		Hopeless: r.health.Hopeless()}
	if st.State == scm.Running && !st.Alive {
		s.State = scm.Stopped.String() // not registered with the manager yet
	}
	if err != nil {
		s.Message = err.Error()
	}
	return s
}

// writeFiles brings files up to date.
func writeFiles(d Disk, files []file) error {
	for _, f := range files {
		path := d.Path(f.Path)
		if same(path, f.Content) {
			continue
		}
		if err := durable.WriteFile(path, f.Content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// fingerprint returns a hash that identifies a program's configuration.
func fingerprint(p program) string {
	h := sha256.New()
	fmt.Fprintln(h, strings.Join(p.Service.Argv, "\x00"))
	if p.Epoch != "" {
		fmt.Fprintln(h, p.Epoch)
	}
	for _, f := range p.Files {
		fmt.Fprintf(h, "%s %d\n%s", f.Path, len(f.Content), f.Content)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// fingerprints returns the fingerprint with which each program was last started.
// If the file is damaged, the programs are restarted once.
func (r *reconciler) fingerprints() map[string]string {
	prints, err := durable.ReadStatus[map[string]string](r.disk.Path(startedFile))
	if err != nil || prints == nil {
		return map[string]string{}
	}
	return prints
}
