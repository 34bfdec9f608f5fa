// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/cri/mount"
	"github.com/mullion-k8s/mullion/internal/cri/runc"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// recover brings records and reality in line after a restart:
//
//	record says          reality                     then
//	half made, Removing  anything                    removed (sandboxes by sweep)
//	made                 runc runs it, or has run    it runs: the kill came before the record
//	running              runc runs it                adopted
//	running              conmon left an exit code    ended so
//	running              neither                     ended in an unknown way
//	sandbox ready        its namespace is gone       stopped (the machine restarted)
//	no record            process, mount, namespace,  removed, unless some records could
//	                     cgroup, directory, hold     not be read (complete is false)
//
// Failures to clean up are logged and retried, by sweep or at the next start; only
// a runtime that does not answer at all keeps the server from starting.
func (s *Server) recover(ctx context.Context, complete bool) error {
	states, err := s.runtime.States(ctx)
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	for _, c := range s.store.Containers.List() {
		s.note(ctx, "container cannot be recovered", logkey.ContainerID, c.ID, s.recoverContainer(ctx, c, states[c.ID]))
	}
	for _, sb := range s.store.Sandboxes.List() {
		s.note(ctx, "sandbox cannot be recovered", logkey.SandboxID, sb.ID, s.recoverSandbox(ctx, sb))
	}
	if complete {
		s.removeOrphans(ctx, states)
	}
	return nil
}

func (s *Server) note(ctx context.Context, what, key, id string, err error) {
	if err != nil {
		s.log.ErrorContext(ctx, what, key, id, logkey.Error, err) //nolint:sloglint // the callers' texts are constants
	}
}

func (s *Server) recoverContainer(ctx context.Context, c store.Container, st runc.State) error {
	if c.Made == 0 || c.Removing {
		return s.removeContainer(ctx, c.ID)
	}
	unlock, err := s.store.Containers.Lock(ctx, c.ID)
	if err != nil {
		return err
	}
	defer unlock()
	switch {
	case c.Finished != 0:
		return errors.Join(s.runtime.Delete(ctx, c.ID), s.removeHostRoot(c.ID), mount.UnmountBelow(s.dir(c.ID)))
	case c.Started != 0:
		return s.recheck(ctx, c, st)
	case st.Status == "running", st.Status == "stopped": // its conmon may not have left an exit code yet
		c.Started, c.PID = st.Created.UnixNano(), st.PID
		s.log.InfoContext(ctx, "container was started, but not recorded so", logkey.ContainerID, c.ID)
		if err := s.store.Containers.Put(c); err != nil {
			return err
		}
		return s.recheck(ctx, c, st)
	case st.Status == "created":
		// It never ran: another StartContainer may create it again.
		return errors.Join(s.runtime.Delete(ctx, c.ID), s.forgetExit(ctx, c.ID))
	}
	if exit, ok, _ := s.runtime.Exit(c.ID, s.dir(c.ID, bundleDir)); ok {
		c.Started = exit.At.UnixNano()
		if err := s.store.Containers.Put(c); err != nil {
			return err
		}
		return s.finish(ctx, c)
	}
	return nil
}

// recoverSandbox only records the current state. Taking down a network runs Windows
// programs, which cannot run before the host does; sweep sees to that.
func (s *Server) recoverSandbox(ctx context.Context, sb store.Sandbox) error {
	if !sb.Ready() || sb.HostProcess || isNamespace(s.networkPath(sb)) {
		return nil
	}
	s.log.WarnContext(ctx, "sandbox has lost its network namespace", logkey.SandboxID, sb.ID)
	sb.Stopped = now()
	return s.store.Sandboxes.Put(sb)
}

// tidySandbox removes the remains of a sandbox after a kill or the failure of a
// plugin.
func (s *Server) tidySandbox(ctx context.Context, id string) error {
	unlock, err := s.store.Sandboxes.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	sb, err := s.store.Sandboxes.Get(id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case sb.Made == 0 || sb.Removing:
		return s.dropSandbox(ctx, id)
	case sb.Stopped != 0 && (sb.Networked || sb.NamespaceID != ""):
		return s.stopSandbox(ctx, id)
	}
	return nil
}

// removeOrphans removes resources whose ID has no record.
func (s *Server) removeOrphans(ctx context.Context, states map[string]runc.State) {
	known := func(id string) bool { _, err := s.store.Containers.Get(id); return err == nil }
	for id := range states {
		if !known(id) {
			s.note(ctx, "orphan container cannot be removed", logkey.ContainerID, id, s.runtime.Delete(ctx, id))
		}
	}
	if ids, err := s.runtime.Exits(); err == nil {
		for _, id := range ids {
			if !known(id) {
				s.note(ctx, "orphan exit code cannot be removed", logkey.ContainerID, id, s.runtime.Forget(id))
			}
		}
	}
	s.removeMounts(ctx, known)
	if ids, err := s.store.Containers.Leftovers(); err == nil {
		for _, id := range ids {
			s.note(ctx, "leftover of a container cannot be removed", logkey.ContainerID, id, s.clear(ctx, id))
		}
	}
	if ids, err := s.store.Sandboxes.Leftovers(); err == nil {
		for _, id := range ids {
			s.note(ctx, "leftover of a sandbox cannot be removed", logkey.SandboxID, id, s.store.Sandboxes.Delete(id))
		}
	}
	var namespaces, sandboxes []string
	for _, sb := range s.store.Sandboxes.List() {
		namespaces, sandboxes = append(namespaces, strings.ToLower(sb.NamespaceID)), append(sandboxes, sb.ID)
	}
	for _, id := range s.cfg.Namespaces.Namespaces() {
		if !slices.Contains(namespaces, strings.ToLower(id)) {
			s.log.InfoContext(ctx, "removing a namespace without a sandbox", logkey.Namespace, id)
			s.note(ctx, "orphan namespace cannot be removed", logkey.Namespace, id,
				s.cfg.Namespaces.DeleteNamespace(ctx, id))
		}
	}
	for _, id := range s.cgroups.Children() {
		if !slices.Contains(sandboxes, id) {
			s.note(ctx, "orphan cgroup cannot be removed", logkey.SandboxID, id, s.cgroups.Child(id).Remove())
		}
	}
	for _, img := range s.cfg.Images.List() {
		for _, owner := range s.cfg.Images.Holders(img.ID) {
			if !known(owner) {
				s.note(ctx, "orphan hold on an image cannot be released", logkey.ContainerID, owner,
					s.cfg.Images.Release(owner))
			}
		}
	}
}

func (s *Server) removeMounts(ctx context.Context, known func(string) bool) {
	all := filepath.Dir(s.store.Containers.Dir("x"))
	mounts, err := mount.Below(all)
	s.note(ctx, "mounts cannot be listed", logkey.Path, all, err)
	for _, id := range s.hostRoots() {
		if !known(id) {
			s.note(ctx, "orphan view of the host cannot be removed", logkey.ContainerID, id, s.removeHostRoot(id))
		}
	}
	for _, m := range mounts {
		rel, err := filepath.Rel(all, m)
		if id, _, _ := strings.Cut(rel, "/"); err == nil && !known(id) {
			s.note(ctx, "orphan mount cannot be removed", logkey.Path, m, mount.Unmount(m))
		}
	}
}
