// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"errors"
	"fmt"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/mount"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// RemoveContainer removes a container, by force if it runs. One that does not
// exist counts as removed.
func (s *Server) RemoveContainer(ctx context.Context,
	req *runtime.RemoveContainerRequest) (*runtime.RemoveContainerResponse, error) {
	c, err := s.container(req.GetContainerId())
	if errors.Is(err, store.ErrNotFound) {
		return &runtime.RemoveContainerResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := s.removeContainer(ctx, c.ID); err != nil {
		return nil, fmt.Errorf("failed to remove container %q: %w", c.ID, err)
	}
	return &runtime.RemoveContainerResponse{}, nil
}

// removeContainer takes down whatever there is of a container, complete or
// not. It may be called again until it succeeds.
func (s *Server) removeContainer(ctx context.Context, id string) error {
	if err := s.stopContainer(ctx, id, 0); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	unlock, err := s.store.Containers.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := s.store.Containers.Get(id)
	if err != nil {
		return s.clear(ctx, id) // of a record that never came to be
	}
	if !c.Removing {
		c.Removing = true
		if err := s.store.Containers.Put(c); err != nil {
			return err
		}
	}
	if err := s.point(ctx, "container.remove.after-mark"); err != nil {
		return err
	}
	if err := s.clear(ctx, id); err != nil {
		return err
	}
	if c.Made != 0 {
		s.log.InfoContext(ctx, "container removed", logkey.ContainerID, id, logkey.SandboxID, c.SandboxID)
		s.publish(c.SandboxID, id, runtime.ContainerEventType_CONTAINER_DELETED_EVENT)
	}
	return nil
}

// clear removes everything that bears a container's ID.
func (s *Server) clear(ctx context.Context, id string) error {
	if err := s.runtime.Delete(ctx, id); err != nil {
		return err
	}
	if err := s.forgetExit(ctx, id); err != nil {
		return err
	}
	if err := s.point(ctx, "container.remove.after-runtime"); err != nil {
		return err
	}
	if err := errors.Join(s.removeHostRoot(id), mount.UnmountBelow(s.dir(id))); err != nil {
		return err
	}
	if err := s.point(ctx, "container.remove.after-unmount"); err != nil {
		return err
	}
	if err := s.cfg.Images.Release(id); err != nil {
		return err
	}
	s.samples.forget(id)
	return s.store.Containers.Delete(id)
}
