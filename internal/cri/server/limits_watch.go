// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/cri/mount"
	"github.com/mullion-k8s/mullion/internal/cri/runc"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

const (
	// watchPeriod is how often containers are looked at for limits that they run against.
	watchPeriod = time.Second
	// diskPeriod is how often the pods' files are measured while the free space of the
	// disk does not shrink quickly. Measuring walks all of these files.
	diskPeriod = 30 * time.Second
	// diskStep is how much the free space may shrink between two measurements.
	diskStep = 512 << 20
)

// watch remembers one look until the next.
type watch struct {
	tasks    map[string]*taskWatch // by container
	free     uint64                // on the disk, when pods were last measured
	measured time.Time
}

// watchLimits ends containers that run against a limit which does not end them by
// itself. It runs until the context ends.
func (s *Server) watchLimits(ctx context.Context) error {
	w := watch{tasks: map[string]*taskWatch{}}
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s.lookAtTasks(ctx, &w)
		s.note(ctx, "disk cannot be measured", logkey.Path, s.cfg.StateDir, s.lookAtDisk(ctx, &w))
	}
}

// lookAtTasks looks at the memory and the processes of all containers.
func (s *Server) lookAtTasks(ctx context.Context, w *watch) {
	running := map[string]bool{}
	for _, c := range s.store.Containers.List() {
		if !c.Running() {
			continue
		}
		running[c.ID] = true
		if w.tasks[c.ID] == nil {
			w.tasks[c.ID] = &taskWatch{}
		}
		err := s.lookAt(ctx, c, w.tasks[c.ID])
		s.note(ctx, "limits of a container cannot be checked", logkey.ContainerID, c.ID, err)
	}
	for id := range w.tasks {
		if !running[id] {
			delete(w.tasks, id)
		}
	}
}

func (s *Server) lookAt(ctx context.Context, c store.Container, w *taskWatch) error {
	group := s.containerCgroup(c.SandboxID, c.ID)
	e, err := group.Events()
	if err != nil {
		return err
	}
	if e.OOMKills > 0 {
		// As memory.oom.group of version 2 does, which the kubelet sets on Linux: a
		// container that lacks one of its processes does not work any more.
		return s.end(ctx, c.ID, reasonOOM, s.memoryMessage(c))
	}
	// Version 2 counts refusals by the pod's limit with the pod.
	pod, err := s.cgroups.Child(c.SandboxID).Events()
	if err != nil {
		return err
	}
	refused, limit := max(e.RefusedTasks, pod.RefusedTasks), s.taskLimit()
	var tasks uint64
	if refused > 0 {
		u, err := group.Usage()
		if errors.Is(err, os.ErrNotExist) {
			return nil // it has just ended
		}
		if err != nil {
			return err
		}
		tasks = u.Tasks
	}
	if pod.RefusedTasks > e.RefusedTasks && tasks < limit/4 {
		return nil // another container of the pod is at it
	}
	if w.look(refused, tasks, limit) {
		return s.end(ctx, c.ID, reasonTasks, tasksMessage(limit))
	}
	return nil
}

// lookAtDisk measures the pods if it is time to, and ends pods that have written too much.
func (s *Server) lookAtDisk(ctx context.Context, w *watch) error {
	if s.cfg.Ceilings.DiskBytes == 0 && s.cfg.Ceilings.AllDisk == 0 {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(s.cfg.StateDir, &st); err != nil {
		return err
	}
	free, step := st.Bavail*uint64(st.Bsize), uint64(diskStep)
	if n := s.cfg.Ceilings.DiskBytes; n > 0 {
		step = min(step, uint64(n)/8)
	}
	if free+step > w.free && time.Since(w.measured) < diskPeriod {
		w.free = max(w.free, free)
		return nil
	}
	w.free, w.measured = free, time.Now()
	var pods []podDisk
	for _, sb := range s.store.Sandboxes.List() {
		pods = append(pods, podDisk{sb.ID, s.podDisk(sb)})
	}
	for id, why := range s.cfg.Ceilings.overDisk(pods) {
		for _, c := range s.containersOf(id) {
			if err := s.end(ctx, c.ID, reasonDisk, why); err != nil {
				return err
			}
		}
	}
	return nil
}

// podDisk adds up what a pod has written: drives C, the files of init, logs and
// emptyDir volumes, which several containers may share.
func (s *Server) podDisk(sb store.Sandbox) uint64 {
	var all uint64
	add := func(dir string) {
		n, _ := diskUsage(dir)
		all += n
	}
	volumes := map[string]bool{}
	for _, c := range s.containersOf(sb.ID) {
		add(s.dir(c.ID, upperDir))
		add(s.dir(c.ID, linuxUpperDir))
		add(s.dir(c.ID, statusDir))
		add(s.dir(c.ID, logDir))
		for i, m := range c.Config.GetMounts() {
			if isOwnVolume(m, sb.Config.GetMetadata().GetUid()) && !volumes[m.GetHostPath()] {
				volumes[m.GetHostPath()] = true
				add(s.dir(c.ID, mountsDir, strconv.Itoa(i)))
			}
		}
	}
	return all
}

// end kills a container because of a limit, and records which. One that has ended by itself
// keeps its own reason.
func (s *Server) end(ctx context.Context, id, reason, message string) error {
	unlock, err := s.store.Containers.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := s.store.Containers.Get(id)
	if errors.Is(err, store.ErrNotFound) || err == nil && (!c.Running() || c.Limit != "") {
		return nil
	}
	if err != nil {
		return err
	}
	return s.endLocked(ctx, c, reason, message)
}

// endLocked is end for callers that hold the container's lock.
func (s *Server) endLocked(ctx context.Context, c store.Container, reason, message string) error {
	s.log.WarnContext(ctx, "container is ended because of a limit",
		logkey.ContainerID, c.ID, logkey.SandboxID, c.SandboxID, logkey.Reason, message)
	c.Limit, c.Message = reason, message
	if err := s.store.Containers.Put(c); err != nil {
		return err
	}
	if err := s.runtime.Kill(ctx, c.ID, unix.SIGKILL); err != nil && !errors.Is(err, runc.ErrNotRunning) {
		return fmt.Errorf("end container: %w", err)
	}
	return nil
}

// dropWritten removes the files that an ended container wrote to its drive C: a full
// disk must not keep the next container of the pod from running.
func (s *Server) dropWritten(id string) error {
	if err := mount.Unmount(s.dir(id, rootDir)); err != nil {
		return err
	}
	if err := os.RemoveAll(s.dir(id, upperDir)); err != nil {
		return fmt.Errorf("empty drive C: %w", err)
	}
	s.samples.forget(id)
	return nil
}
