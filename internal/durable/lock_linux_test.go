// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package durable_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/durable"
)

// TestMain lets the test binary be the other process that holds a lock.
func TestMain(m *testing.M) {
	if path := os.Getenv("HOLD_LOCK"); path != "" {
		if _, err := durable.TryLock(path, durable.Exclusive); err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("held\n")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent closes it
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// lockElsewhere has another process take the lock. It returns the process, which
// holds the lock until it is killed.
func lockElsewhere(t *testing.T, path string) *os.Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HOLD_LOCK="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed
	})
	b := make([]byte, 5)
	if _, err := out.Read(b); err != nil || !strings.HasPrefix(string(b), "held") {
		t.Fatalf("child: %q, %v", b, err)
	}
	return cmd.Process
}

func wantHolder(t *testing.T, path string, want int) {
	t.Helper()
	if pid, err := durable.Holder(path); pid != want || err != nil {
		t.Errorf("holder %d, %v; want %d", pid, err, want)
	}
}

func TestLockOfAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	wantHolder(t, path, 0)
	if _, err := os.Stat(path); err == nil {
		t.Error("asking for the holder created the file")
	}
	other := lockElsewhere(t, path)
	wantHolder(t, path, other.Pid)
	_, err := durable.TryLock(path, durable.Exclusive)
	if held, ok := errors.AsType[*durable.LockedError](err); !ok || held.PID != other.Pid || held.Path != path {
		t.Errorf("taken twice: %v", err)
	}
	if err := other.Kill(); err != nil {
		t.Fatal(err)
	}
	// It ends at some time, and the lock with it.
	l, err := durable.WaitLock(t.Context(), path, durable.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	wantHolder(t, path, os.Getpid())
	l.Unlock()
	wantHolder(t, path, 0)
}

// TestLockWithinAProcess: a lock excludes its own process, too, and examining it
// does not release it.
func TestLockWithinAProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := durable.TryLock(path, durable.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	wantHolder(t, path, os.Getpid())
	for _, m := range []durable.Mode{durable.Exclusive, durable.Shared} {
		_, err := durable.TryLock(path, m)
		if held, ok := errors.AsType[*durable.LockedError](err); !ok || held.PID != os.Getpid() {
			t.Errorf("mode %d: %v, want a LockedError with our PID", m, err)
		}
	}
	l.Unlock()
}

func TestSharedLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	one, err := durable.TryLock(path, durable.Shared)
	if err != nil {
		t.Fatal(err)
	}
	two, err := durable.TryLock(path, durable.Shared)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*durable.Lock{one, two} {
		if _, err := durable.TryLock(path, durable.Exclusive); err == nil {
			t.Error("exclusive beside a shared one")
		}
		l.Unlock()
	}
	three, err := durable.TryLock(path, durable.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	three.Unlock()
}

// TestRemovedLock: holders remove the file of their lock, and never two hold it.
func TestRemovedLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var holders atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				l, err := durable.TryLock(path, durable.Exclusive)
				if err != nil {
					if _, locked := errors.AsType[*durable.LockedError](err); !locked {
						t.Error(err)
					}
					continue
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				runtime.Gosched()
				holders.Add(-1)
				if err := l.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) > 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestWaitLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := durable.TryLock(path, durable.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	_, err = durable.WaitLock(ctx, path, durable.Exclusive)
	if _, ok := errors.AsType[*durable.LockedError](err); !ok || !errors.Is(err, why) {
		t.Errorf("cancelled wait: %v, want the holder and the cause", err)
	}
	got := make(chan error)
	go func() {
		l, err := durable.WaitLock(t.Context(), path, durable.Exclusive)
		if err == nil {
			l.Unlock()
		}
		got <- err
	}()
	first.Unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
	// A lock that is free is taken, whatever the context.
	l, err := durable.WaitLock(ctx, path, durable.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	l.Unlock()
}

// TestRecordLock: a lock of an older version of mullion is seen and respected.
func TestRecordLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		t.Fatal(err)
	}
	// Closing any descriptor of the file, as Holder does, releases a record lock of
	// the own process. So there is one look only.
	_, err = durable.TryLock(path, durable.Exclusive)
	if held, ok := errors.AsType[*durable.LockedError](err); !ok || held.PID != os.Getpid() {
		t.Errorf("error %v, want a LockedError with our PID", err)
	}
}

func TestLockInMissingDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "no", "lock")
	if _, err := durable.WaitLock(t.Context(), path, durable.Exclusive); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	wantHolder(t, path, 0)
}
