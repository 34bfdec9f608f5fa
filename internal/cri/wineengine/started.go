// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wineengine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/wine/launch"
)

// startPoll is how often Started looks: init finds the program and starts Wine within some
// 10 ms.
const startPoll = 2 * time.Millisecond

// Started waits until init reports that it has started the program, or why not. There is no
// limit in time, after which the outcome would be another one on a busy machine: only the
// end of init or of the context ends the wait.
func (e Engine) Started(ctx context.Context, pid int, status string) error {
	ended, release, err := watch(pid)
	if err != nil {
		return err
	}
	defer release()
	for {
		over := ended()
		// After that, because init reports first.
		s, err := e.Status(status)
		if err == nil && s.Error != "" {
			return errors.New(s.Error)
		}
		// A killed init reports nothing. The container has ended then, and conmon reports how.
		if err == nil || over || launch.Started(filepath.Dir(status)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(startPoll):
		}
	}
}

// watch returns a function that reports whether a process has ended.
func watch(pid int) (ended func() bool, release func(), err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return func() bool { return true }, func() {}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("watch process %d: %w", pid, err)
	}
	return func() bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return err == nil && n > 0
	}, func() { _ = unix.Close(fd) }, nil // only a handle
}
