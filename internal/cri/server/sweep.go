// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"errors"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/runc"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// sweepPeriod is how often running containers are checked for conditions without a
// notification: a killed conmon, or a disk that fills up.
const sweepPeriod = 5 * time.Second

// defaultScratchBytes is the size of a Windows container's drive C where the
// request lacks it ("rootfs_size_in_bytes"): 20 GB, as the default of hcsshim's
// scratch layers.
const defaultScratchBytes = 20 << 30

// sweep runs until the context ends.
func (s *Server) sweep(ctx context.Context) error {
	tick := time.NewTicker(sweepPeriod)
	defer tick.Stop()
	for {
		for _, c := range s.store.Containers.List() {
			if c.Running() {
				s.note(ctx, "container cannot be checked", logkey.ContainerID, c.ID, s.check(ctx, c.ID))
			}
		}
		for _, sb := range s.store.Sandboxes.List() {
			if !sb.Ready() {
				s.note(ctx, "sandbox cannot be taken down", logkey.SandboxID, sb.ID, s.tidySandbox(ctx, sb.ID))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// check looks after one container.
func (s *Server) check(ctx context.Context, id string) error {
	unlock, err := s.store.Containers.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := s.store.Containers.Get(id)
	if errors.Is(err, store.ErrNotFound) || err == nil && !c.Running() {
		return nil
	}
	if err != nil {
		return err
	}
	if _, ok, err := s.runtime.Exit(id, s.dir(id, bundleDir)); ok || err != nil {
		return errors.Join(err, s.finish(ctx, c))
	}
	if s.conmon(id) == 0 {
		states, err := s.runtime.States(ctx)
		if err != nil {
			return err
		}
		return s.recheck(ctx, c, states[id])
	}
	return s.checkScratch(ctx, c)
}

// recheck decides about a container that is recorded as running.
// Preconditions: the container's lock is held.
func (s *Server) recheck(ctx context.Context, c store.Container, st runc.State) error {
	if _, ok, err := s.runtime.Exit(c.ID, s.dir(c.ID, bundleDir)); ok || err != nil {
		return errors.Join(err, s.finish(ctx, c))
	}
	switch {
	case s.conmon(c.ID) != 0:
		return nil // it will report the exit
	case st.Status == "running":
		// There is no reader for its output any more, and its end will not be
		// reported.
		return s.lost(ctx, c, "the monitor of the container was killed")
	}
	return s.lost(ctx, c, "the container ended while it was not monitored")
}

// checkScratch ends a container whose drive C has grown beyond its size.
// Fidelity: on Windows writes fail with "There is not enough space on the
// disk."; Linux has no quota for a directory on every file system.
func (s *Server) checkScratch(ctx context.Context, c store.Container) error {
	limit := uint64(defaultScratchBytes)
	if n := c.Config.GetWindows().GetResources().GetRootfsSizeInBytes(); n > 0 {
		limit = uint64(n)
	}
	if used := s.sample(c).disk; used > limit {
		return s.endLocked(ctx, c, reasonDisk, scratchMessage(used, limit))
	}
	return nil
}

var _ runtime.RuntimeServiceServer = (*Server)(nil)
