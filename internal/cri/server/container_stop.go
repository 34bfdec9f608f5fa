// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/runc"
	"github.com/mullion-k8s/mullion/internal/cri/store"
)

// killWait is how long a container may take to vanish after SIGKILL;
// containerd's killContainerTimeout (internal/cri/server/container_stop.go).
const killWait = 2 * time.Minute

// conmonWait is how long conmon may take to write the exit code of a container
// that has ended. It needs milliseconds; no other process writes the code.
const conmonWait = 5 * time.Second

// askAgain is how long a container has to end before the request is repeated. Process 1 of a container loses a request
// that comes before its program handles signals (pid_namespaces(7)): a container that is stopped at once would live on
// until the end of the grace period. Its init takes a second request for the first.
const askAgain = 2 * time.Second

// StopContainer ends a container: first with the shutdown event that Windows
// sends to the programs of a container, and after the timeout by force. One
// that does not run, or does not exist, counts as stopped.
func (s *Server) StopContainer(ctx context.Context,
	req *runtime.StopContainerRequest) (*runtime.StopContainerResponse, error) {
	c, err := s.container(req.GetContainerId())
	if errors.Is(err, store.ErrNotFound) {
		return &runtime.StopContainerResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	grace := max(0, time.Duration(req.GetTimeout())*time.Second)
	if err := s.stopContainer(ctx, c.ID, grace); err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	return &runtime.StopContainerResponse{}, nil
}

// stopContainer returns once the container's end is recorded. It does not hold
// the container's lock while it waits, because recording the end needs it.
func (s *Server) stopContainer(ctx context.Context, id string, grace time.Duration) error {
	ended, release := s.exits.wait(id)
	defer release()
	running, err := s.signal(ctx, id, grace)
	if err != nil || !running {
		return err
	}
	if grace > 0 {
		if done, err := awaitEnd(ctx, id, ended, min(grace, askAgain)); done {
			return err
		}
		if grace > askAgain {
			if running, err = s.signal(ctx, id, grace); err != nil || !running {
				return err
			}
			if done, err := awaitEnd(ctx, id, ended, grace-askAgain); done {
				return err
			}
		}
		if running, err = s.signal(ctx, id, 0); err != nil || !running {
			return err
		}
	}
	if err := s.point(ctx, "container.stop.after-kill"); err != nil {
		return err
	}
	return s.awaitKilled(ctx, id, ended)
}

// awaitEnd waits for the end of a container. It reports whether the caller is done, and not the time over.
func awaitEnd(ctx context.Context, id string, ended <-chan struct{}, limit time.Duration) (done bool, err error) {
	select {
	case <-ended:
		return true, nil
	case <-ctx.Done():
		return true, fmt.Errorf("wait for container %q: %w", id, context.Cause(ctx))
	case <-time.After(limit):
		return false, nil
	}
}

// signal requests a container's end (grace > 0) or kills it. The lock keeps it from
// a container that is just being started.
func (s *Server) signal(ctx context.Context, id string, grace time.Duration) (running bool, err error) {
	unlock, err := s.store.Containers.Lock(ctx, id)
	if err != nil {
		return false, err
	}
	defer unlock()
	c, err := s.container(id)
	if err != nil || !c.Running() {
		return false, err
	}
	sig := unix.SIGKILL
	if grace > 0 {
		sig = unix.SIGTERM // the engine's init turns it into CTRL_SHUTDOWN_EVENT
	}
	err = s.runtime.Kill(ctx, id, sig)
	if errors.Is(err, runc.ErrNotRunning) {
		// It has just ended; its end will be recorded.
		return true, nil
	}
	if err != nil {
		return true, fmt.Errorf("failed to kill container %q: %w", id, err)
	}
	return true, nil
}

func (s *Server) awaitKilled(ctx context.Context, id string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, killWait)
	defer cancel()
	for {
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("failed to stop container %q: %w", id, context.Cause(ctx))
		case <-time.After(conmonWait):
			// Perhaps there is no conmon any more.
			if err := s.check(ctx, id); err != nil {
				return err
			}
		}
	}
}
