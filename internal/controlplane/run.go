// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// stopLimit bounds an orderly stop; the supervisor (package cluster) waits for
// 10 s before it kills the process. The slow parts are the API server, which
// drains for up to 2 s, and etcd, which syncs.
const stopLimit = 9 * time.Second

// ErrLocked is returned when another process uses the data directory.
var ErrLocked = errors.New("another control plane uses this data directory")

// Run runs a control plane. It returns nil if the context was cancelled and
// everything stopped, and otherwise the reason why it ended. A value received
// from look makes it check its certificates at once instead of within the hour;
// look may be nil.
// Preconditions: once per process.
func Run(ctx context.Context, c config.Config, look <-chan os.Signal, log *slog.Logger) error {
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	release, err := lock(c.LockFile())
	if err != nil {
		return err
	}
	defer release()
	if err := enter(c); err != nil {
		return err
	}
	resolv, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the machine's DNS servers: %w", err)
	}
	p, err := plan.New(c, plan.Machine{Resolvers: plan.ParseResolvConf(string(resolv))})
	if err != nil {
		return err
	}
	s := &server{plan: p, log: log, look: look, started: time.Now(), ended: make(chan struct{})}
	return s.run(ctx)
}

// lock locks the data directory. Its error names the process that holds the lock.
func lock(path string) (release func(), err error) {
	l, err := durable.TryLock(path, durable.Exclusive)
	if held, ok := errors.AsType[*durable.LockedError](err); ok {
		return nil, fmt.Errorf("%w: process %d (%s)", ErrLocked, held.PID, filepath.Dir(path))
	}
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	return l.Unlock, nil
}

// server is one control plane.
type server struct {
	plan    plan.Plan
	log     *slog.Logger
	look    <-chan os.Signal
	started time.Time

	stopOnce sync.Once
	ended    chan struct{} // closed when a component has ended the whole
	reason   error         // why; read after ended is closed

	api apiServer
}

// end ends the control plane; any part may call it. Only the first reason counts,
// because the others follow from it.
func (s *server) end(reason error) {
	s.stopOnce.Do(func() {
		s.reason = reason
		s.log.Error("the control plane ends", logkey.Reason, reason)
		close(s.ended)
	})
}

// exit stands in for os.Exit in upstream's code. It does not return, because
// its callers do not expect it to.
func (s *server) exit(code int) {
	s.end(fmt.Errorf("a component ended the process with exit code %d; see its last messages", code))
	select {}
}

// etcdGaveUp is called where etcd's own program would end; it does not return
// either.
func (s *server) etcdGaveUp(reason error) {
	s.end(fmt.Errorf("etcd gave up: %w", reason))
	select {}
}

func (s *server) run(ctx context.Context) error {
	c := s.plan.Config
	bridgeLogs(s.log, s.exit)
	if err := s.prepare(); err != nil {
		return err
	}
	components, err := s.components(ctx)
	if err != nil {
		return err
	}
	// Starting makes garbage faster than it uses memory; collecting it seldom
	// makes the start a good deal quicker. See settle.
	debug.SetGCPercent(startGCPercent)
	s.api.begin(withLog(ctx, s.log, plan.APIServer))
	status := newStatus(c.StatusFile(), s.started, s.log)
	done := make(chan struct{})
	var released sync.WaitGroup
	released.Go(func() {
		select {
		case <-status.ready:
			releaseStartMemory()
		case <-done:
		}
	})
	err = s.superviseAll(ctx, components, status.update)
	close(done)
	released.Wait()
	return err
}

// superviseAll runs the components until the context is cancelled or one of them ends,
// and returns when all have stopped, or have had their time.
func (s *server) superviseAll(
	ctx context.Context, components []supervise.Component, onChange func([]supervise.Status),
) error {
	sup, err := supervise.New(supervise.Config{Components: components, OnChange: onChange, Log: s.log})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		// Its error is nil: it only ends by its context.
		_ = sup.Run(ctx)
	}()
	select {
	case <-ctx.Done():
	case <-s.ended:
	}
	cancel()
	select {
	case <-stopped:
	case <-time.After(stopLimit):
		s.end(fmt.Errorf("stop: not done after %s", stopLimit))
	}
	select {
	case <-s.ended:
		return s.reason
	default:
		return nil
	}
}

// prepare makes directories, keys and files.
func (s *server) prepare() error {
	c := s.plan.Config
	for _, dir := range []string{c.Run(), c.Generated(), filepath.Dir(c.AuditLog())} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	if err := s.certificates().renew(); err != nil {
		return err
	}
	for _, f := range s.plan.Files {
		if err := durable.WriteFile(f.Path, f.Content, f.Mode); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) certificates() *certificates {
	return &certificates{
		cfg:  s.plan.Config,
		plan: s.plan.PKI,
		look: s.look,
		log:  s.log.With(logkey.Component, plan.Certificates),
		now:  time.Now,
	}
}

// components turns the plan's data into components of package supervise.
func (s *server) components(ctx context.Context) ([]supervise.Component, error) {
	c := s.plan.Config
	caPEM, err := os.ReadFile(c.ClusterCA())
	if err != nil {
		return nil, fmt.Errorf("read certificate authority: %w", err)
	}
	objects, err := plan.Objects(c, caPEM)
	if err != nil {
		return nil, err
	}
	bodies := map[string]supervise.Component{}
	etcd := &etcd{cfg: c, log: s.log.With(logkey.Component, plan.Etcd), fatal: s.etcdGaveUp, ready: make(chan struct{})}
	bodies[plan.Etcd] = supervise.Component{Run: etcd.run, Ready: etcd.isReady}
	s.api.listen = func(ctx context.Context) (net.Listener, error) { return listen(ctx, c.Addresses, c.Port) }
	bodies[plan.APIServer] = supervise.Component{Run: s.api.run, Ready: s.api.isReady}
	bodies[plan.Bootstrap] = supervise.Component{Once: true, Run: func(ctx context.Context) error {
		cfg, err := s.api.client()
		if err != nil {
			return err
		}
		return bootstrap(ctx, cfg, objects)
	}}
	kcm := &controllerManager{}
	bodies[plan.ControllerManager] = supervise.Component{Run: kcm.run, Ready: s.defaultAccount}
	sched := &kubeScheduler{}
	bodies[plan.Scheduler] = supervise.Component{Run: sched.run, Ready: sched.isReady}
	bodies[plan.Controllers] = supervise.Component{Run: s.approver}
	bodies[plan.Certificates] = supervise.Component{Run: s.certificates().run}
	resolver := &coreDNS{corefile: s.plan.Corefile, address: c.DNSAddress, name: plan.ReadyName(c), log: s.log}
	if c.AdmissionPort != 0 {
		listener, err := listenForAdmission(ctx, c)
		if err != nil {
			return nil, err
		}
		win := &windows{server: s, listener: listener}
		bodies[plan.Manager] = supervise.Component{Run: win.run, Ready: win.isReady}
	}
	metrics := newMetricsServer(c)
	bodies[plan.MetricsServer] = supervise.Component{Run: metrics.run, Ready: metrics.isReady}
	if len(c.LoadBalancer.Pools()) > 0 {
		bodies[plan.ServiceController] = supervise.Component{Run: s.serviceController}
	}
	bodies[plan.CoreDNS] = supervise.Component{Run: resolver.run, Ready: resolver.isReady}

	var out []supervise.Component
	for _, x := range s.plan.Components {
		switch x.Name {
		case plan.APIServer:
			s.api.argv = x.Argv
		case plan.ControllerManager:
			kcm.argv = x.Argv
		case plan.Scheduler:
			sched.argv = x.Argv
		case plan.MetricsServer:
			metrics.argv = x.Argv
		}
		b := bodies[x.Name]
		b.Name, b.Needs = x.Name, x.Needs
		b.Run = s.oneForAll(x.Name, b.Run, b.Once)
		out = append(out, b)
	}
	return out, nil
}

// oneForAll turns the unexpected end of a component into the end of all components. Its
// Run returns only after a request to stop, so that the supervisor neither starts it
// again nor stops the others out of order.
func (s *server) oneForAll(name string, run func(context.Context) error, once bool) func(context.Context) error {
	return func(ctx context.Context) error {
		finished := make(chan error, 1)
		go func() { finished <- guard(withLog(ctx, s.log, name), run) }()
		select {
		case err := <-finished:
			if once && err == nil {
				return nil
			}
			if ctx.Err() == nil {
				if err == nil {
					err = errors.New("exited unexpectedly")
				}
				s.end(fmt.Errorf("%s: %w", name, err))
				<-ctx.Done()
			}
			return ctx.Err()
		case <-ctx.Done():
		}
		select {
		case err := <-finished:
			return err
		case <-s.ended:
			// One that is parked in exit, or that fell over the end of another, may
			// never return; the others must still be stopped in order.
			select {
			case err := <-finished:
				return err
			case <-time.After(stopLimit / 4):
				return ctx.Err()
			}
		}
	}
}

// guard turns a panic into an error.
func guard(ctx context.Context, run func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return run(ctx)
}
