// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// holdLock names the file whose lock the test program takes until its standard input ends, in place of the tests.
const holdLock = "MULLION_TEST_HOLD_LOCK"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdLock); path != "" {
		if _, err := durable.TryLock(path, durable.Exclusive); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("locked")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// supervisor holds a cluster's lock and serves its socket, in place of a supervisor.
type supervisor struct {
	supervise.Socket[State]
	layout Layout
	exit   func() // ends the process with the lock
	stop   func() // ends the socket
}

func newSupervisor(t *testing.T) *supervisor {
	t.Helper()
	s := &supervisor{layout: Layout{DataDir: t.TempDir(), Name: "x"}, stop: func() {}}
	for _, dir := range []string{s.layout.run(), s.layout.Logs()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *supervisor) takeLock(t *testing.T) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), holdLock+"="+s.layout.lock()), os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.exit = sync.OnceFunc(func() {
		_ = stdin.Close()
		_ = cmd.Wait() // whatever its code
	})
	t.Cleanup(s.exit)
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
}

func (s *supervisor) listen(t *testing.T) {
	t.Helper()
	var err error
	if s.stop, err = s.Open(s.layout.run(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
}

func (s *supervisor) publish(components ...supervise.Status) {
	s.Publish(State{PID: os.Getpid(), Components: components})
}

// TestReadState: the state is the one of the process that holds the lock, whatever earlier supervisors, also of
// earlier versions, have left.
func TestReadState(t *testing.T) {
	s := newSupervisor(t)
	left := filepath.Join(s.layout.run(), "status.json") // of a version that wrote the state to a file
	if err := os.WriteFile(left, []byte(`{"pid": 1, "components": [{"name": "server"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.listen(t)
	s.stop() // the socket is left, too
	if _, running, err := ReadState(s.layout); running || err != nil {
		t.Errorf("without a lock: running %v, %v", running, err)
	}
	s.takeLock(t)
	begun := make(chan error)
	go func() {
		_, _, err := ReadState(s.layout)
		begun <- err
	}()
	s.publish(supervise.Status{Name: "server"})
	s.listen(t)
	if err := <-begun; err != nil {
		t.Errorf("of a supervisor that had only begun: %v", err)
	}
	if st, running, err := ReadState(s.layout); !running || err != nil || len(st.Components) != 1 {
		t.Errorf("of a supervisor: %+v, running %v, %v", st, running, err)
	}
}

// TestStoppedSupervisor: one that does not answer, or of a version without the socket, is an error that says so.
func TestStoppedSupervisor(t *testing.T) {
	s := newSupervisor(t)
	s.takeLock(t)
	_, running, err := ReadState(s.layout)
	if !running || err == nil || !strings.Contains(err.Error(), "has no socket") {
		t.Errorf("without a socket: running %v, %v", running, err)
	}
	s.listen(t)
	s.stop()
	name := filepath.Join(s.layout.run(), "supervisor.sock")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, running, err := ReadState(s.layout); !running || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without an answer: running %v, %v", running, err)
	}
}

// TestWatch: a command that waits sees each change, waits for a supervisor that has only begun, ends when all is
// ready, and says why if it cannot be.
func TestWatch(t *testing.T) {
	rows := []Row{{Name: ServerName}, {Name: "win-1"}}
	is := func(name string, state supervise.State) supervise.Status {
		return supervise.Status{Name: name, State: state, Message: "reason"}
	}
	for name, tt := range map[string]struct {
		then func(*testing.T, *supervisor, context.CancelCauseFunc)
		want string
	}{
		"all is ready": {func(_ *testing.T, s *supervisor, _ context.CancelCauseFunc) {
			s.publish(is(ServerName, supervise.Ready), is("win-1", supervise.Ready))
		}, ""},
		"a component has failed": {func(_ *testing.T, s *supervisor, _ context.CancelCauseFunc) {
			s.publish(is(ServerName, supervise.Failed))
		}, "server cannot run: reason"},
		"the time is over": {func(_ *testing.T, _ *supervisor, cancel context.CancelCauseFunc) {
			cancel(errors.New("not ready after 5m"))
		}, "not ready after 5m: server (starting: reason), win-1 (not begun)"},
		"the supervisor has ended, and another has begun": {
			func(t *testing.T, s *supervisor, _ context.CancelCauseFunc) {
				s.stop()
				s.listen(t)
				// The reason is the last thing that a supervisor writes.
				reason := []byte("the reason in its log\n")
				if err := os.WriteFile(s.layout.log("supervisor"), reason, 0o600); err != nil {
					t.Error(err)
				}
				s.exit()
			}, "the cluster's supervisor exited: the reason in its log"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSupervisor(t)
			s.takeLock(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var once sync.Once
			seen := make(chan struct{})
			end := make(chan error)
			go func() {
				end <- Watch(ctx, s.layout, rows, func(supervise.Status) { once.Do(func() { close(seen) }) })
			}()
			s.listen(t)
			s.publish(is(ServerName, supervise.Starting))
			<-seen
			tt.then(t, s, cancel)
			got := ""
			if err := <-end; err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	if err := Watch(t.Context(), newSupervisor(t).layout, rows, nil); !errors.Is(err, errEnded) {
		t.Errorf("without a supervisor: %v", err)
	}
}

// TestReboot: a host that runs gets the signal, and the command ends when the supervisor has started it again.
func TestReboot(t *testing.T) {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	defer signal.Stop(term)
	s := newSupervisor(t)
	if err := RebootHost(t.Context(), s.layout, "win-1"); !errors.Is(err, ErrDown) {
		t.Errorf("a cluster that does not run: %v", err)
	}
	s.takeLock(t)
	s.listen(t)
	s.publish(supervise.Status{Name: "win-1", Restarts: 2})
	if err := RebootHost(t.Context(), s.layout, "win-1"); !errors.Is(err, host.ErrDown) {
		t.Errorf("a host that does not run: %v", err)
	}
	if err := RebootHost(t.Context(), s.layout, "win-2"); err == nil {
		t.Error("a host that does not exist was rebooted")
	}
	if err := os.MkdirAll(s.layout.Node("win-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := durable.TryLock(hostLock(s.layout, "win-1"), durable.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	go func() {
		<-term
		s.publish(supervise.Status{Name: "win-1", Restarts: 3})
	}()
	if err := RebootHost(t.Context(), s.layout, "win-1"); err != nil {
		t.Error(err)
	}
}

// TestStandInRecords: an image that every host has in a build of its own is
// recorded with all of them, one whose tag names its build not at all.
func TestStandInRecords(t *testing.T) {
	images, err := standInRecords(Config{Windows: []string{"2019", "2019", "2016", "2022"}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, l := range images {
		got[l.Reference]++
	}
	for ref, want := range map[string]int{
		"docker.io/library/redis:3.0-nanoserver": 1, "registry.k8s.io/pause:3.10.2": 3,
		"mcr.microsoft.com/windows/servercore:ltsc2019": 0,
	} {
		if got[ref] != want {
			t.Errorf("%s is recorded %d times, want %d", ref, got[ref], want)
		}
	}
}
