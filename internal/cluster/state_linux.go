// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// State is the state of the supervisor, as its socket has it.
type State struct {
	PID        int                `json:"pid"`
	Components []supervise.Status `json:"components"`
}

// ReadState returns the state of the running supervisor, or false if no supervisor runs.
func ReadState(l Layout) (s State, running bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	err = follow(ctx, l, func(now State) (bool, error) { s = now; return true, nil })
	if errors.Is(err, errEnded) {
		return State{}, false, nil
	}
	if err != nil {
		return State{}, true, fmt.Errorf("read state of the cluster: %w", err)
	}
	return s, true, nil
}

// errEnded is returned by follow if no supervisor runs, or it ends.
var errEnded = errors.New("the cluster's supervisor exited")

// follow calls f with the state of the supervisor, now and after each change, until f returns true or an error.
func follow(ctx context.Context, l Layout, f func(State) (done bool, err error)) error {
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	var conn net.Conn
	var pid int
	// A supervisor that has its lock but no socket yet has begun a moment ago, and can notify no client.
	err := supervise.Await(starting, nil, lookEvery, func() (err error) {
		if pid, err = durable.Holder(l.lock()); err == nil && pid != 0 {
			conn, err = supervise.Dial(l.run())
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("the supervisor (process %d) has no socket; stop one of an earlier version with "+
			"'mullion down': %w", pid, err)
	}
	if pid != 0 {
		err = followProcess(ctx, pid, conn, f)
	}
	if pid == 0 || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s", errEnded, lastLine(l.log("supervisor")))
	}
	return err
}

// followProcess calls f with the state of a supervisor. The error is io.EOF if the supervisor has exited: it closes its
// socket a little before it logs the reason.
func followProcess(ctx context.Context, pid int, conn net.Conn, f func(State) (done bool, err error)) error {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("follow the supervisor (process %d): %w", pid, errors.Join(err, conn.Close()))
	}
	exited := err != nil
	if !exited {
		defer unix.Close(process)
	}
	if err := supervise.Follow(ctx, conn, f); exited || !errors.Is(err, io.EOF) {
		return err
	}
	if err := awaitExit(ctx, process); err != nil {
		return err
	}
	return io.EOF
}
