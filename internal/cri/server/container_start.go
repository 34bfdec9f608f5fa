// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"errors"
	"fmt"
	"os"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/cri/runc"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// The status of a container that could not be started; containerd's
// internal/cri/server/helpers.go (errorStartReason, errorStartExitCode).
const (
	reasonStartError = "StartError"
	exitStartError   = 128
)

// StartContainer runs the container's program.
func (s *Server) StartContainer(ctx context.Context,
	req *runtime.StartContainerRequest) (*runtime.StartContainerResponse, error) {
	c, unlock, err := s.holdContainer(ctx, req.GetContainerId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if c.Removing {
		return nil, fmt.Errorf("container %q is in removing state, can't be started", c.ID)
	}
	if st := c.State(); st != runtime.ContainerState_CONTAINER_CREATED {
		return nil, fmt.Errorf("container %q is in %s state", c.ID, st)
	}
	sb, err := s.sandbox(c.SandboxID)
	if err != nil {
		return nil, err
	}
	if !sb.Ready() {
		return nil, fmt.Errorf("sandbox container %q is not running", sb.ID)
	}
	if err := s.startContainer(ctx, &c, sb); err != nil {
		return nil, s.startFailed(ctx, c, err)
	}
	s.log.InfoContext(ctx, "container started", logkey.ContainerID, c.ID, logkey.SandboxID, c.SandboxID,
		logkey.PID, c.PID)
	s.publish(c.SandboxID, c.ID, runtime.ContainerEventType_CONTAINER_STARTED_EVENT)
	return &runtime.StartContainerResponse{}, nil
}

// startContainer makes the container under runc and conmon, and lets it go.
// Preconditions: the container's lock is held, which also keeps the news of its
// end waiting until its beginning is recorded.
func (s *Server) startContainer(ctx context.Context, c *store.Container, sb store.Sandbox) error {
	// The build has not been checked yet if the image was pulled by digest or is
	// not an index. The text is the Host Compute Service's for 0xc0370101.
	if !sb.HostProcess && !winver.CompatibleOSVersion(s.cfg.Build, c.OSVersion) {
		return fmt.Errorf("failed to create containerd task: failed to create shim task: hcs::CreateComputeSystem "+
			"%s: The container operating system does not match the host operating system.: unknown", c.ID)
	}
	if err := s.joinDomain(*c, sb); err != nil {
		return err
	}
	if err := s.logOn(*c, sb); err != nil {
		return fmt.Errorf("failed to start containerd task %q: %w", c.ID, err)
	}
	if err := s.point(ctx, "container.start.before-create"); err != nil {
		return err
	}
	pid, err := s.runtime.Create(ctx, runc.Create{
		ID: c.ID, Name: c.Config.GetMetadata().GetName(), Bundle: s.dir(c.ID, bundleDir), LogPath: s.logFile(*c),
		Stdin: c.Config.GetStdin(), StdinOnce: c.Config.GetStdinOnce(), Terminal: c.Config.GetTty(),
		Place: s.placeConmon(c.SandboxID),
	})
	if err != nil {
		return fmt.Errorf("failed to create containerd task: %w", err)
	}
	if err := s.point(ctx, "container.start.after-create"); err != nil {
		return err
	}
	if err := s.runtime.Start(ctx, c.ID); err != nil {
		return fmt.Errorf("failed to start containerd task %q: %w", c.ID, err)
	}
	c.PID, c.Started = pid, now()
	if err := s.point(ctx, "container.start.after-start"); err != nil {
		return err
	}
	if err := s.cfg.Engine.Started(ctx, pid, s.dir(c.ID, statusDir, mainStatus)); err != nil {
		return notStarted(*c, sb, err)
	}
	return s.store.Containers.Put(*c)
}

// notStarted returns the error for a container whose program could not be started.
func notStarted(c store.Container, sb store.Sandbox, cause error) error {
	if sb.HostProcess {
		return fmt.Errorf("failed to start containerd task %q: %w: unknown", c.ID, cause)
	}
	return fmt.Errorf("failed to start containerd task %q: %w", c.ID, createProcessError(c.ID, c.Command, cause))
}

// conmonGroup returns the cgroup, in the sandbox's, of the processes that hold its
// containers: a container's output costs conmon as much processor time as the container,
// and its pod pays. It is not the container's own, whose end conmon must live to report.
func (s *Server) conmonGroup(sandbox string) cgroup.Group {
	return s.cgroups.Child(sandbox).Child("conmon")
}

// placeConmon returns a function that moves conmon there.
func (s *Server) placeConmon(sandbox string) func(pid int) error {
	return func(pid int) error {
		if err := s.conmonGroup(sandbox).Make(cgroup.Limits{}); err != nil {
			return err
		}
		return s.conmonGroup(sandbox).Enter(pid)
	}
}

// logOn returns an error if the container's account does not exist.
func (s *Server) logOn(c store.Container, sb store.Sandbox) error {
	if !sb.HostProcess {
		return s.checkUser(c.ID, c.Command, c.User, s.hostname(sb.Config))
	}
	if err := s.cfg.HostProcesses.LogOn(c.User, c.ID); err != nil {
		return fmt.Errorf("%w: unknown", err)
	}
	return nil
}

// startFailed removes the container's processes that were started and records why
// it never ran. The container remains, with its reason.
func (s *Server) startFailed(ctx context.Context, c store.Container, cause error) error {
	ctx = context.WithoutCancel(ctx)
	err := errors.Join(cause, s.runtime.Delete(ctx, c.ID))
	// The exit code of the process just killed must not be reported.
	err = errors.Join(err, s.forgetExit(ctx, c.ID))
	c.Finished = now()
	s.failStart(&c, cause)
	err = errors.Join(err, s.store.Containers.Put(c))
	s.publish(c.SandboxID, c.ID, runtime.ContainerEventType_CONTAINER_STOPPED_EVENT)
	return err
}

// failStart records why a container, which has ended, never ran.
func (s *Server) failStart(c *store.Container, cause error) {
	c.PID, c.Started = 0, 0
	c.Reason, c.ExitCode, c.Message = reasonStartError, exitStartError, s.podText(cause)
}

// container finds a container by its ID; the error is containerd's.
func (s *Server) container(id string) (store.Container, error) {
	c, err := s.store.Containers.Get(id)
	if err != nil {
		return c, fmt.Errorf("an error occurred when try to find container %q: %w", id, err)
	}
	return c, nil
}

// holdContainer finds a container by its ID and locks it.
func (s *Server) holdContainer(ctx context.Context, id string) (c store.Container, unlock func(), err error) {
	if c, unlock, err = s.store.Containers.Hold(ctx, id); err != nil {
		return c, nil, fmt.Errorf("an error occurred when try to find container %q: %w", id, err)
	}
	return c, unlock, nil
}

// isGone reports whether err means that a file or process does not exist.
func isGone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, runc.ErrNotRunning)
}
