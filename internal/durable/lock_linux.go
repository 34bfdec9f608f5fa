// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Locks are open file description locks (fcntl(2), F_OFD_SETLK). Unlike record locks they
// also exclude their own process, and closing another descriptor of the file does not
// release them; unlike flock(2) they can be examined without being taken. The kernel does
// not report their owner, so the range encodes it: a lock begins at byte 0, where all of
// them meet, and is as long as the number of the process that holds it.

// setLock takes the lock and reports whether it could.
func setLock(f *os.File, mode Mode) (bool, error) {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Len: int64(os.Getpid())}
	if mode == Shared {
		lk.Type = unix.F_RDLCK
	}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lk)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// getLock returns the PID of a process that holds the lock in either mode, or 0.
func getLock(f *os.File) (int, error) {
	lk := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lk); err != nil {
		return 0, err
	}
	switch {
	case lk.Type == unix.F_UNLCK:
		return 0, nil
	case lk.Pid > 0:
		// A record lock, which names its process: supervisors of versions before this
		// package have one.
		return int(lk.Pid), nil
	}
	return int(lk.Len), nil
}

// LockOpen takes the exclusive lock of an open file and reports whether it could. The lock lives as long
// as the open file description does, also if only the kernel still has it.
func LockOpen(f *os.File) (bool, error) { return setLock(f, Exclusive) }
