// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/cri/store"
)

// sample is a container's usage at one time.
type sample struct {
	cgroup.Usage
	at        time.Time
	nanoCores uint64 // processors in use, in 1/10^9, since the sample before
	hasRate   bool
	disk      uint64 // bytes in the writable layer
	inodes    uint64
	diskAt    time.Time
}

// samples remembers the last sample of each container: a rate needs two, and
// measuring a writable layer means walking it.
type samples struct {
	mu   sync.Mutex
	last map[string]sample // by container; guarded by mu
}

// diskAge is how old a measurement of a writable layer may be; containerd's
// default stats_collect_period.
const diskAge = 10 * time.Second

// rateAge is the shortest time over which a rate is meaningful.
const rateAge = 500 * time.Millisecond

func (m *samples) get(id string) (sample, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.last[id]
	return s, ok
}

func (m *samples) set(id string, s sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		m.last = map[string]sample{}
	}
	m.last[id] = s
}

func (m *samples) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.last, id)
}

// containerCgroup returns the container's cgroup, in its sandbox's. It does not exist
// before the container is made.
func (s *Server) containerCgroup(sandbox, container string) cgroup.Group {
	return s.cgroups.Child(sandbox).Child(container)
}

// sample measures a container. One that does not run uses only disk space.
func (s *Server) sample(c store.Container) sample {
	last, had := s.samples.get(c.ID)
	next := sample{at: time.Now(), disk: last.disk, inodes: last.inodes, diskAt: last.diskAt}
	if c.Running() {
		// It may end meanwhile; then there is no usage to count.
		if u, err := s.containerCgroup(c.SandboxID, c.ID).Usage(); err == nil {
			next.Usage = u
		} else {
			next.Usage = last.Usage
		}
	} else {
		next.CPUNanos = last.CPUNanos
	}
	switch elapsed := next.at.Sub(last.at); {
	case had && elapsed < rateAge:
		next.nanoCores, next.hasRate, next.at, next.CPUNanos = last.nanoCores, last.hasRate, last.at, last.CPUNanos
	case had && next.CPUNanos >= last.CPUNanos:
		next.nanoCores, next.hasRate = uint64(float64(next.CPUNanos-last.CPUNanos)/elapsed.Seconds()), true
	}
	if time.Since(next.diskAt) >= diskAge {
		next.disk, next.inodes = diskUsage(s.dir(c.ID, upperDir))
		// The registry, which on Windows lies in files of drive C.
		bytes, inodes := diskUsage(s.dir(c.ID, linuxUpperDir))
		next.disk, next.inodes = next.disk+bytes, next.inodes+inodes
		next.diskAt = time.Now()
	}
	s.samples.set(c.ID, next)
	return next
}

// diskUsage adds up the disk usage of a tree. Files that vanish meanwhile do not
// count.
func diskUsage(dir string) (bytes, inodes uint64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // gone
		}
		if info, err := d.Info(); err == nil {
			inodes++
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				bytes += uint64(st.Blocks) * 512
			}
		}
		return nil
	})
	return bytes, inodes
}
