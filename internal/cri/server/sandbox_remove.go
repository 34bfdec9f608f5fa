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

	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// RemovePodSandbox removes a sandbox with its containers, running or not. One
// that does not exist counts as removed.
func (s *Server) RemovePodSandbox(ctx context.Context,
	req *runtime.RemovePodSandboxRequest) (*runtime.RemovePodSandboxResponse, error) {
	sb, unlock, err := s.holdSandbox(ctx, req.GetPodSandboxId())
	if errors.Is(err, store.ErrNotFound) {
		return &runtime.RemovePodSandboxResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.dropSandbox(ctx, sb.ID); err != nil {
		return nil, fmt.Errorf("remove sandbox %s: %w", sb.ID, err)
	}
	return &runtime.RemovePodSandboxResponse{}, nil
}

// dropSandbox takes down whatever there is of a sandbox, complete or not. It
// may be called again until it succeeds.
// Preconditions: the sandbox's lock is held.
func (s *Server) dropSandbox(ctx context.Context, id string) error {
	sb, err := s.store.Sandboxes.Get(id)
	if errors.Is(err, store.ErrNotFound) {
		return s.store.Sandboxes.Delete(id) // of a record that never came to be
	}
	if err != nil {
		return err
	}
	if !sb.Removing {
		sb.Removing = true
		if err := s.store.Sandboxes.Put(sb); err != nil {
			return err
		}
	}
	if err := s.point(ctx, "sandbox.remove.after-mark"); err != nil {
		return err
	}
	if err := s.stopSandbox(ctx, id); err != nil {
		return err
	}
	for _, c := range s.containersOf(id) {
		if err := s.removeContainer(ctx, c.ID); err != nil {
			return fmt.Errorf("remove container %s: %w", c.ID, err)
		}
	}
	if err := s.point(ctx, "sandbox.remove.after-containers"); err != nil {
		return err
	}
	if err := s.removeCgroup(ctx, id); err != nil {
		return err
	}
	made := sb.Made != 0
	if err := s.store.Sandboxes.Delete(id); err != nil {
		return err
	}
	if made {
		s.log.InfoContext(ctx, "sandbox removed", logkey.SandboxID, id, logkey.Pod, podName(sb.Config))
		s.publish(id, id, runtime.ContainerEventType_CONTAINER_DELETED_EVENT)
	}
	return nil
}

// removeCgroup removes a sandbox's cgroup. The last conmon may need a moment more: it
// ends after it has left the exit code.
func (s *Server) removeCgroup(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, conmonWait)
	defer cancel()
	for {
		err := s.cgroups.Child(id).Remove()
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}
