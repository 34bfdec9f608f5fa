// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/runc"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// Reasons of an end; containerd's internal/cri/server/helpers.go.
const (
	reasonCompleted = "Completed"
	reasonError     = "Error"
	reasonOOM       = "OOMKilled"
	exitOOM         = 137
	reasonUnknown   = "Unknown"
	exitUnknown     = 255
)

// exits wakes the goroutines that wait for the end of a container.
type exits struct {
	mu      sync.Mutex
	waiting map[string]*waiters // guarded by mu
}

// waiters of one container.
type waiters struct {
	ended chan struct{}
	count int
}

// wait returns a channel that is closed when the container ends. The caller must call
// release when it stops waiting: the entry of a container lives as long as its waiters.
func (e *exits) wait(id string) (ended <-chan struct{}, release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting == nil {
		e.waiting = map[string]*waiters{}
	}
	w := e.waiting[id]
	if w == nil {
		w = &waiters{ended: make(chan struct{})}
		e.waiting[id] = w
	}
	w.count++
	return w.ended, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if w.count--; w.count == 0 && e.waiting[id] == w {
			delete(e.waiting, id)
		}
	}
}

func (e *exits) wake(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w, ok := e.waiting[id]; ok {
		close(w.ended)
		delete(e.waiting, id)
	}
}

// ended is called when conmon has left an exit code.
func (s *Server) ended(ctx context.Context, id string) {
	unlock, err := s.store.Containers.Lock(ctx, id)
	if err != nil {
		return
	}
	defer unlock()
	c, err := s.store.Containers.Get(id)
	if err != nil || c.ID != id || !c.Running() {
		return // removed meanwhile, or known already
	}
	if err := s.finish(ctx, c); err != nil {
		s.log.ErrorContext(ctx, "end of a container cannot be recorded; the next sweep tries again", logkey.ContainerID,
			id, logkey.Error, err)
	}
}

// finish records how a running container ended, if it has.
// Preconditions: the container's lock is held.
func (s *Server) finish(ctx context.Context, c store.Container) error {
	exit, ok, err := s.runtime.Exit(c.ID, s.dir(c.ID, bundleDir))
	if err != nil || !ok {
		return err
	}
	c.Finished, c.ExitCode = max(exit.At.UnixNano(), c.Started), int32(exit.Code)
	status, err := s.cfg.Engine.Status(s.dir(c.ID, statusDir, mainStatus))
	switch {
	case err == nil:
		// Windows' exit codes have 32 bits, conmon's 8.
		c.ExitCode = int32(status.ExitCode)
	case !isGone(err):
		s.log.WarnContext(ctx, "status of a container cannot be read; its exit code may lack bits", logkey.ContainerID,
			c.ID, logkey.Error, err)
	}
	switch {
	case status.Error != "":
		// The server was started again before it learned that the program was not.
		sb, _ := s.sandbox(c.SandboxID) // there as long as its containers
		s.failStart(&c, notStarted(c, sb, errors.New(status.Error)))
	case exit.OOM || c.Limit != "":
		if c.Limit == "" {
			c.Limit, c.Message = reasonOOM, s.memoryMessage(c)
		}
		c.Reason = c.Limit
		if c.ExitCode <= 1 || err != nil {
			// Init cannot see why its program was killed. Kubernetes shows 128 +
			// SIGKILL for OOMKilled everywhere else.
			c.ExitCode = exitOOM
		}
	case c.ExitCode == 0:
		c.Reason = reasonCompleted
	default:
		c.Reason = reasonError
	}
	if err := s.store.Containers.Put(c); err != nil {
		return err
	}
	if err := s.point(ctx, "container.exit.after-record"); err != nil {
		return err
	}
	s.log.InfoContext(ctx, "container ended", logkey.ContainerID, c.ID, logkey.SandboxID, c.SandboxID, logkey.ExitCode,
		c.ExitCode, logkey.Reason, c.Reason)
	s.exits.wake(c.ID)
	s.publish(c.SandboxID, c.ID, runtime.ContainerEventType_CONTAINER_STOPPED_EVENT)
	if err := s.runtime.Delete(ctx, c.ID); err != nil || c.Limit != reasonDisk {
		return err
	}
	return s.dropWritten(c.ID)
}

// lost records that a container has ended in an unknown way, or because of a limit: where
// root may not protect a process from the kernel's search for memory, that ends conmon
// together with its container.
// Preconditions: the container's lock is held.
func (s *Server) lost(ctx context.Context, c store.Container, why string) error {
	err := s.runtime.Delete(ctx, c.ID)
	// conmon may have spoken at the last moment.
	if exit, ok, _ := s.runtime.Exit(c.ID, s.dir(c.ID, bundleDir)); ok && exit.At.UnixNano() > 0 {
		return errors.Join(err, s.finish(ctx, c))
	}
	c.Finished = now()
	if c.Limit != "" {
		c.ExitCode, c.Reason = exitOOM, c.Limit
	} else {
		c.ExitCode, c.Reason, c.Message = exitUnknown, reasonUnknown, why
	}
	if e := s.store.Containers.Put(c); e != nil {
		return errors.Join(err, e)
	}
	s.log.WarnContext(ctx, "container is gone", logkey.ContainerID, c.ID, logkey.SandboxID, c.SandboxID,
		logkey.Reason, why)
	s.exits.wake(c.ID)
	s.publish(c.SandboxID, c.ID, runtime.ContainerEventType_CONTAINER_STOPPED_EVENT)
	if err != nil || c.Limit != reasonDisk {
		return err
	}
	return s.dropWritten(c.ID)
}

// forgetExit waits until conmon, whose container was just deleted, has written
// its last file, and removes it.
func (s *Server) forgetExit(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, conmonWait)
	defer cancel()
	for pid := s.conmon(id); pid > 0; pid = s.conmon(id) {
		if _, ok, err := s.runtime.Exit(id, s.dir(id, bundleDir)); ok || err != nil {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the end of conmon %d: %w", pid, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
	return s.runtime.Forget(id)
}

// conmon returns the process that holds a container, or zero.
func (s *Server) conmon(id string) int { return runc.ConmonPID(id, s.dir(id, bundleDir)) }
