// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package durable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Mode is how a lock is shared.
type Mode int

const (
	// Exclusive locks have one holder.
	Exclusive Mode = iota
	// Shared locks have any number of holders, and no exclusive one.
	Shared
)

// Lock is a held lock on a file. The kernel releases it when the process ends for any
// reason. The content of the file has no meaning. Unlock leaves the file where it is,
// Remove does not.
type Lock struct{ file *os.File }

// LockedError is the error of TryLock if another holds the lock, in this
// process or in another one.
type LockedError struct {
	Path string
	// PID of a holder, as the holder numbers itself (which matters if it lives in
	// another PID namespace); 0 if it has just released the lock.
	PID int
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("lock %s: in use by another process", e.Path)
	}
	return fmt.Sprintf("lock %s: in use by another process (%d)", e.Path, e.PID)
}

// lockPoll is the interval between attempts of WaitLock: the kernel's own wait cannot be
// interrupted by a context. Locks are held for tenths of a second to minutes, so that 50
// ms more do not show.
const lockPoll = 50 * time.Millisecond

// TryLock takes the lock on the file at path, which it creates if necessary. The
// error is a *LockedError if another holds the lock in a conflicting mode.
func TryLock(path string, mode Mode) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	ok, err := setLock(f, mode)
	if ok {
		own, err := f.Stat()
		if there, gone := os.Stat(path); err == nil && gone == nil && os.SameFile(own, there) {
			return &Lock{f}, nil
		}
		// Its holder has removed the file meanwhile: a lock on it excludes no one that opens the path.
		_ = f.Close() // the lock file has no content
		return TryLock(path, mode)
	}
	if err != nil {
		err = fmt.Errorf("lock %s: %w", path, err)
	} else {
		// The PID only explains; without it the error is still true.
		pid, _ := getLock(f)
		err = &LockedError{path, pid}
	}
	return nil, errors.Join(err, f.Close())
}

// WaitLock takes a lock as TryLock does, and waits for other holders until the
// context is done.
func WaitLock(ctx context.Context, path string, mode Mode) (*Lock, error) {
	for {
		l, err := TryLock(path, mode)
		if err == nil {
			return l, nil
		}
		if _, locked := errors.AsType[*LockedError](err); !locked {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
}

// Unlock releases the lock.
func (l *Lock) Unlock() {
	_ = l.file.Close() // the lock file has no content
}

// Remove removes the lock's file and releases the lock. A process that has the file open
// makes another one.
// Preconditions: the lock is exclusive.
func (l *Lock) Remove() error {
	defer l.Unlock()
	return os.Remove(l.file.Name())
}

// Holder returns the ID of a process that holds the lock on the file at path, or 0. It
// queries the kernel and does not take the lock.
func Holder(path string) (int, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("find holder of lock: %w", err)
	}
	defer f.Close() // the lock file has no content
	pid, err := getLock(f)
	if err != nil {
		return 0, fmt.Errorf("find holder of lock %s: %w", path, err)
	}
	return pid, nil
}
