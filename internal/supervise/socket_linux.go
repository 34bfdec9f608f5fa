// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/netplane/accept"
)

// Socket is the Unix socket of a supervisor with a state of the type T, in the directory with the status files of its
// processes. A process that has changed its file connects for a moment (WriteStatus), and the supervisor reads the
// files again. A command that waits stays connected (Follow) and receives the state, a JSON document per line, now and
// after each change. No client sends anything: the files have the content, so that a lost connection loses none.
type Socket[T any] struct {
	// Reported rings when a client connects.
	Reported Bell

	published Bell
	mu        sync.Mutex
	state     T // guarded by mu
}

const (
	socketName = "supervisor.sock"
	// maxClients is far above the hosts and commands of a cluster. Further ones wait in the kernel's queue.
	maxClients = 1000
)

// Publish sends a state to the commands that follow.
func (s *Socket[T]) Publish(state T) {
	s.mu.Lock()
	s.state = state
	s.mu.Unlock()
	s.published.Ring()
}

// Open makes the socket in a directory, in place of the socket of a supervisor that was killed, and serves clients
// until end is called.
// Preconditions: no other supervisor has the directory, and a state was published.
func (s *Socket[T]) Open(dir string, log *slog.Logger) (end func(), err error) {
	var l *net.UnixListener
	if err := withName(dir, func(name string) (err error) {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if l, err = net.ListenUnix("unix", &net.UnixAddr{Name: name}); err != nil {
			return err
		}
		l.SetUnlinkOnClose(false) // the name is valid only here
		return os.Chmod(name, 0o600)
	}); err != nil {
		return nil, fmt.Errorf("make the supervisor's socket: %w", err)
	}
	loop := accept.Loop{Limit: maxClients, Serve: s.serve, Failed: func(err error, wait time.Duration) {
		log.Warn("cannot accept a connection", logkey.Error, err, logkey.Wait, wait)
	}}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() { _ = loop.Run(ctx, l) }) // its only error: another has closed the listener
	return func() { cancel(); served.Wait() }, nil
}

// serve serves one client until it closes the connection.
func (s *Socket[T]) serve(ctx context.Context, conn net.Conn) {
	s.Reported.Ring()
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	context.AfterFunc(ctx, func() { _ = conn.Close() }) // also during a write to a client that is stopped
	go func() {
		defer gone()
		_, _ = io.Copy(io.Discard, conn) // until one side closes the connection
	}()
	for states := json.NewEncoder(conn); ; {
		changed := s.published.Next()
		s.mu.Lock()
		state := s.state
		s.mu.Unlock()
		if states.Encode(state) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// WriteStatus replaces the status file of a process and reports the change to the supervisor with a socket in the same
// directory. A process may also run without a supervisor.
func WriteStatus(path string, doc any) error {
	if err := durable.WriteStatus(path, doc); err != nil {
		return err
	}
	if conn, err := Dial(filepath.Dir(path)); err == nil {
		_ = conn.Close() // nothing was sent
	}
	return nil
}

// Dial connects to the supervisor with a socket in a directory. It does not block: a supervisor that is stopped has a
// queue of connections.
func Dial(dir string) (conn net.Conn, err error) {
	err = withName(dir, func(name string) error {
		conn, err = net.Dial("unix", name)
		return err
	})
	return conn, err
}

// Follow calls f with the state of the supervisor, now and after each change, until f returns true or an error. It
// closes the connection. The error is io.EOF if the supervisor has ended.
func Follow[T any](ctx context.Context, conn net.Conn, f func(T) (done bool, err error)) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	for states := json.NewDecoder(conn); ; {
		var state T
		err := states.Decode(&state)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return io.EOF // whatever cut the connection, the supervisor on this machine is gone
		}
		if done, err := f(state); done || err != nil {
			return err
		}
	}
}

// withName calls f with a name of the socket in a directory that is short enough: the path of the directory may be
// longer than the 107 bytes for the name of a Unix socket (unix(7)).
func withName(dir string, f func(name string) error) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close() // opened for reading
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), socketName))
}
