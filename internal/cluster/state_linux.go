// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/atomicfile"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// State is what the supervisor publishes; status.json.
type State struct {
	PID        int                `json:"pid"`
	Started    time.Time          `json:"started"`
	Components []supervise.Status `json:"components"`
}

// ReadState gives the state of a running supervisor, and false if none runs.
func ReadState(l Layout) (State, bool, error) {
	pid, err := holder(l.Lock())
	if err != nil || pid == 0 {
		return State{}, false, err
	}
	content, err := os.ReadFile(l.Status())
	if errors.Is(err, fs.ErrNotExist) {
		return State{PID: pid}, true, nil // it has only just begun
	}
	if err != nil {
		return State{}, true, fmt.Errorf("read state: %w", err)
	}
	var s State
	if err := json.Unmarshal(content, &s); err != nil || s.PID != pid {
		// Left over by a supervisor that was killed; the new one has yet to write.
		return State{PID: pid}, true, nil
	}
	return s, true, nil
}

func (s State) write(l Layout) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return atomicfile.Write(l.Status(), append(content, '\n'), 0o600)
}

// holder returns the ID of the process that holds the lock file, 0 if none.
// The kernel is asked, not the file's content: a lock cannot outlive its
// process.
func holder(path string) (int, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at lock: %w", err)
	}
	defer f.Close()
	lk := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lk); err != nil {
		return 0, fmt.Errorf("look at lock %s: %w", path, err)
	}
	if lk.Type == unix.F_UNLCK {
		return 0, nil
	}
	return int(lk.Pid), nil
}

// lock takes a lock file for the life of the process. It returns false if
// another process has it.
//
// POSIX record locks are used because F_GETLK tells who holds one; they are
// dropped when *any* descriptor of the file is closed by the process, so the
// file must not be opened a second time here. The returned function drops it.
func lock(path string) (release func(), ok bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("take lock: %w", err)
	}
	err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, false, f.Close()
	}
	if err != nil {
		return nil, false, errors.Join(fmt.Errorf("take lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, true, nil // closing drops the lock
}
