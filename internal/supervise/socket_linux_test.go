// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package supervise

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// open opens a socket with the zero state.
func open[T any](t *testing.T, dir string) (s *Socket[T], end func()) {
	t.Helper()
	s = new(Socket[T])
	end, err := s.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return s, end
}

// follow sends the states of a socket until the supervisor ends; the error is the last thing sent.
func follow(t *testing.T, dir string) (<-chan int, <-chan error) {
	t.Helper()
	conn, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	states, end := make(chan int), make(chan error, 1)
	go func() {
		end <- Follow(t.Context(), conn, func(n int) (bool, error) { states <- n; return n < 0, nil })
	}()
	return states, end
}

// TestSocket: commands receive the present state and later ones, a report rings the bell, and the end of the supervisor
// is the end of the states. A supervisor that starts after one that was killed has the place of its socket.
func TestSocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 30)) // longer than the name of a socket may be
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "win-1.json")
	if err := WriteStatus(file, 1); err != nil {
		t.Errorf("without a supervisor: %v", err)
	}
	for range 2 {
		s, stop := open[int](t, dir)
		early, _ := follow(t, dir)
		if got := <-early; got != 0 {
			t.Errorf("the first state is %d", got)
		}
		s.Publish(1)
		if got := <-early; got != 1 {
			t.Errorf("the second state is %d", got)
		}
		late, end := follow(t, dir)
		if got := <-late; got != 1 {
			t.Errorf("the present state is %d", got)
		}
		rung := s.Reported.Next()
		if err := WriteStatus(file, 2); err != nil {
			t.Fatal(err)
		}
		<-rung
		s.Publish(2)
		if a, b := <-early, <-late; a != 2 || b != 2 {
			t.Errorf("the next state is %d and %d", a, b)
		}
		stop()
		if err := <-end; !errors.Is(err, io.EOF) {
			t.Errorf("the end of the supervisor: %v", err)
		}
		// The socket stays, as after kill -9, and takes no connection.
		if _, err := Dial(dir); err == nil {
			t.Error("connected to a supervisor that has ended")
		}
	}
	if st, err := os.Stat(filepath.Join(dir, socketName)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

// TestClientsGo: the supervisor forgets clients that have gone, among them all that have only reported, and clients
// that read nothing hold up no others.
func TestClientsGo(t *testing.T) {
	dir := t.TempDir()
	s, stop := open[string](t, dir)
	const stopped = 3
	for range stopped {
		conn, err := Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	big := strings.Repeat("x", 1<<20) // more than the kernel keeps for a reader
	s.Publish(big)
	for range 100 {
		if err := WriteStatus(filepath.Join(dir, "win-1.json"), 1); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := Follow(t.Context(), conn, func(got string) (bool, error) { return got == big, nil }); err != nil {
		t.Errorf("beside clients that read nothing: %v", err)
	}
	testenv.Until(t, "the end of clients that have gone", func() bool { return len(sockets(t)) <= 1+2*stopped })
	stop() // although a write to those clients has not ended
}

// sockets lists the Unix sockets of this process.
func sockets(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		target, _ := os.Readlink("/proc/self/fd/" + e.Name()) // an error means that it is closed
		if strings.HasPrefix(target, "socket:") {
			all = append(all, target)
		}
	}
	return all
}

// TestFollowEnds: a command ends with its context or its error, and garbage is the end of the supervisor.
func TestFollowEnds(t *testing.T) {
	dir := t.TempDir()
	open[int](t, dir)
	ctx, cancel := context.WithCancelCause(t.Context())
	errStop, errOwn := errors.New("interrupted"), errors.New("failed")
	dial := func() net.Conn {
		conn, err := Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	if err := Follow(ctx, dial(), func(int) (bool, error) { return false, errOwn }); !errors.Is(err, errOwn) {
		t.Errorf("the command's own error: %v", err)
	}
	if err := Follow(ctx, dial(), func(string) (bool, error) { return true, nil }); !errors.Is(err, io.EOF) {
		t.Errorf("a state of another kind: %v", err)
	}
	err := Follow(ctx, dial(), func(int) (bool, error) { cancel(errStop); return false, nil })
	if !errors.Is(err, errStop) {
		t.Errorf("the end of the context: %v", err)
	}
}
