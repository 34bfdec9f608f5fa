// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"

	"github.com/mullion-k8s/mullion/internal/cri/engine"
	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/cri/store"
)

// makeHostRoot mounts the image's files, makes a HostProcess container's view of
// the host, and describes its isolation.
func (s *Server) makeHostRoot(ctx context.Context, c *store.Container, img *image.Image) (oci.Config, error) {
	if err := s.mountDrive(ctx, c.ID, img.Layers, store.Sandbox{HostProcess: true}); err != nil {
		return oci.Config{}, err
	}
	if err := s.point(ctx, "container.create.after-rootfs"); err != nil {
		return oci.Config{}, err
	}
	h := engine.HostContainer{
		ID:     c.ID,
		Image:  s.dir(c.ID, rootDir),
		Root:   s.dir(c.ID, linuxRootDir),
		Status: s.dir(c.ID, statusDir),
		Mounts: c.Config.GetMounts(),
	}
	if err := s.cfg.HostProcesses.Make(h); err != nil {
		return oci.Config{}, err
	}
	return s.cfg.HostProcesses.Spec(h), nil
}

// removeHostRoot undoes makeHostRoot for a container, if it was a HostProcess
// container.
func (s *Server) removeHostRoot(id string) error {
	if s.cfg.HostProcesses == nil {
		return nil
	}
	return s.cfg.HostProcesses.Remove(id)
}

// hostRoots lists the containers for which removeHostRoot has something to do.
func (s *Server) hostRoots() []string {
	if s.cfg.HostProcesses == nil {
		return nil
	}
	return s.cfg.HostProcesses.Containers()
}
