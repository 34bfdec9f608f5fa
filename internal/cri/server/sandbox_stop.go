// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"errors"
	"fmt"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// StopPodSandbox ends the containers of a sandbox and releases its network.
// One that does not exist counts as stopped, as CRI requires.
func (s *Server) StopPodSandbox(ctx context.Context,
	req *runtime.StopPodSandboxRequest) (*runtime.StopPodSandboxResponse, error) {
	sb, unlock, err := s.holdSandbox(ctx, req.GetPodSandboxId())
	if errors.Is(err, store.ErrNotFound) {
		return &runtime.StopPodSandboxResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.stopSandbox(ctx, sb.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("stop sandbox %s: %w", sb.ID, err)
	}
	return &runtime.StopPodSandboxResponse{}, nil
}

// stopSandbox may be called again until it succeeds. First the record forbids new
// containers, then the running ones are ended, then the network is removed.
// Preconditions: the sandbox's lock is held.
func (s *Server) stopSandbox(ctx context.Context, id string) error {
	sb, err := s.store.Sandboxes.Get(id)
	if err != nil {
		return err
	}
	wasReady := sb.Ready()
	if sb.Stopped == 0 {
		sb.Stopped = now()
		if err := s.store.Sandboxes.Put(sb); err != nil {
			return err
		}
	}
	for _, c := range s.containersOf(id) {
		if err := s.stopContainer(ctx, c.ID, 0); err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("stop container %s: %w", c.ID, err)
		}
	}
	if err := s.point(ctx, "sandbox.stop.after-containers"); err != nil {
		return err
	}
	if sb, err = s.disconnect(ctx, sb); err != nil {
		return err
	}
	if wasReady {
		s.log.InfoContext(ctx, "sandbox stopped", logkey.SandboxID, id, logkey.Pod, podName(sb.Config))
		s.publish(id, id, runtime.ContainerEventType_CONTAINER_STOPPED_EVENT)
	}
	return nil
}

// disconnect gives a sandbox's addresses and namespace up.
func (s *Server) disconnect(ctx context.Context, sb store.Sandbox) (store.Sandbox, error) {
	if sb.Networked {
		if err := s.network.Teardown(ctx, attachment(sb)); err != nil {
			return sb, fmt.Errorf("failed to destroy network for sandbox %q: %w", sb.ID, err)
		}
		if err := s.point(ctx, "sandbox.stop.after-network"); err != nil {
			return sb, err
		}
		sb.Networked = false
		if err := s.store.Sandboxes.Put(sb); err != nil {
			return sb, err
		}
	}
	if sb.NamespaceID == "" {
		return sb, nil
	}
	if err := s.cfg.Namespaces.DeleteNamespace(ctx, sb.NamespaceID); err != nil {
		return sb, fmt.Errorf("failed to remove network namespace for sandbox %q: %w", sb.ID, err)
	}
	if err := s.point(ctx, "sandbox.stop.after-namespace"); err != nil {
		return sb, err
	}
	sb.NamespaceID = ""
	return sb, s.store.Sandboxes.Put(sb)
}

// sandbox finds a sandbox by its ID; the error is containerd's.
func (s *Server) sandbox(id string) (store.Sandbox, error) {
	sb, err := s.store.Sandboxes.Get(id)
	if err != nil {
		return sb, fmt.Errorf("an error occurred when try to find sandbox %q: %w", id, err)
	}
	return sb, nil
}

// holdSandbox finds a sandbox by its ID and locks it.
func (s *Server) holdSandbox(ctx context.Context, id string) (sb store.Sandbox, unlock func(), err error) {
	if sb, unlock, err = s.store.Sandboxes.Hold(ctx, id); err != nil {
		return sb, nil, fmt.Errorf("an error occurred when try to find sandbox %q: %w", id, err)
	}
	return sb, unlock, nil
}

func (s *Server) containersOf(sandboxID string) []store.Container {
	var out []store.Container
	for _, c := range s.store.Containers.List() {
		if c.SandboxID == sandboxID {
			out = append(out, c)
		}
	}
	return out
}
