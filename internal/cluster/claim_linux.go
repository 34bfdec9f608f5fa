// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/mullion-k8s/mullion/internal/durable"
)

// A running cluster claims names on the machine, across all data directories: its own
// name, which is part of the names of cgroups, and its network. A claim is a lock on a
// file in a directory that only root can enter, so that no other user can hold it. The
// kernel releases it with its process.

// claimDir is where the locks lie. /run belongs to root and is empty after a boot
// (Filesystem Hierarchy Standard 3.0, section 3.15).
const claimDir = "/run/mullion/claims"

// inUseError is returned if another cluster on this machine holds a name that
// this one needs.
type inUseError struct {
	What string // for people
	PID  int    // of the other's supervisor; 0 if unknown
}

func (e *inUseError) Error() string {
	return fmt.Sprintf("%s: in use by another cluster on this machine, with another data directory (process %d)",
		e.What, e.PID)
}

func (c Config) nameClaim() claim {
	return claim{claimDir, "cluster-" + c.Name, fmt.Sprintf("take cluster name %q", c.Name)}
}

func (c Config) networkClaim() claim {
	n := c.Network()
	return claim{claimDir, fmt.Sprintf("network-%d", c.Index), fmt.Sprintf("take addresses %s", n.nodes())}
}

// claim is a name that exists once on a machine.
type claim struct {
	dir, name string // of the lock's file
	what      string
}

func (c claim) file() string { return filepath.Join(c.dir, c.name+".lock") }

// take holds the name until release is called or the process ends. The error
// is an *inUseError if another process has it.
func (c claim) take() (release func(), err error) {
	if err := makeOwn(c.dir); err != nil {
		return nil, fmt.Errorf("%s: %w", c.what, err)
	}
	l, err := durable.TryLock(c.file(), durable.Exclusive)
	if held, ok := errors.AsType[*durable.LockedError](err); ok {
		return nil, &inUseError{c.what, held.PID}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.what, err)
	}
	return l.Unlock, nil
}

// taken returns an *inUseError if a process holds the name. Without the permission to
// check, the name looks free, and taking it fails with the reason.
func (c claim) taken() error {
	pid, err := durable.Holder(c.file())
	if err != nil || pid == 0 {
		return nil
	}
	return &inUseError{c.what, pid}
}

// forget removes the lock's file unless a cluster holds the name.
func (c claim) forget() error {
	l, err := durable.TryLock(c.file(), durable.Exclusive)
	if _, held := errors.AsType[*durable.LockedError](err); held || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove lock: %w", err)
	}
	return l.Remove()
}

// makeOwn makes a directory for locks, or checks that no other user can put locks into an
// existing directory.
func makeOwn(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory for locks: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("make directory for locks: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || info.Mode().Perm() != 0o700 || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("make directory for locks: %s is not a directory of this user's alone (mode 0700): remove it",
			dir)
	}
	return nil
}

// takeAll claims all names of a running cluster.
func takeAll(claims ...claim) (release func(), err error) {
	var taken []func()
	release = func() {
		for _, r := range taken {
			r()
		}
	}
	for _, c := range claims {
		r, err := c.take()
		if err != nil {
			release()
			return nil, err
		}
		taken = append(taken, r)
	}
	return release, nil
}
