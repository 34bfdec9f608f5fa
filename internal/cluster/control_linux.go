// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// Time limits for the supervisor. It stops the nodes in at most 10 s and then the
// control plane in at most 10 s; stopLimit leaves some margin.
const (
	lookEvery  = 50 * time.Millisecond // for what no other side can notify: a lock, a context
	startLimit = 10 * time.Second
	stopLimit  = 45 * time.Second
)

// Choose returns the Config that `mullion up` would use, without changing the cluster.
func Choose(l Layout, asked Choice) (Config, error) {
	c, err := Load(l)
	if errors.Is(err, ErrNotFound) {
		return create(l, asked, func(c Config) error { return freeAddresses(l, c) })
	}
	if err != nil {
		return c, err
	}
	pid, err := durable.Holder(l.lock())
	if err != nil {
		return c, err
	}
	return c.merge(asked, pid != 0)
}

// Make chooses the Config and stores it together with the cluster's
// directories.
func Make(l Layout, asked Choice) (Config, error) {
	making, err := lockMaking(l)
	if err != nil {
		return Config{}, err
	}
	defer making.Unlock()
	c, err := Choose(l, asked)
	if err != nil {
		return c, err
	}
	for _, dir := range []string{l.Dir(), l.run(), l.Logs(), l.cache()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return c, fmt.Errorf("make cluster: %w", err)
		}
	}
	return c, c.save(l)
}

// lockMaking takes the lock that clusters are made under: two first `up`s at once
// must not choose the same index. It makes the data directory.
func lockMaking(l Layout) (*durable.Lock, error) {
	if err := os.MkdirAll(l.clusters(), 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	making, err := durable.WaitLock(ctx, filepath.Join(l.clusters(), ".lock"), durable.Exclusive)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, errors.New("make cluster: another mullion is making one; try again")
	}
	if err != nil {
		return nil, fmt.Errorf("make cluster: %w", err)
	}
	return making, nil
}

// Start makes sure that the cluster's supervisor runs, and reports whether it started it.
// It makes a running supervisor check for new hosts.
func Start(l Layout, bin Binaries) (started bool, err error) {
	pid, err := durable.Holder(l.lock())
	if err != nil {
		return false, err
	}
	if pid != 0 {
		if err := unix.Kill(pid, unix.SIGHUP); err != nil {
			return false, fmt.Errorf("signal the supervisor (process %d): %w", pid, err)
		}
		return false, nil
	}
	log, err := os.OpenFile(l.log("supervisor"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return false, fmt.Errorf("start supervisor: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(bin.mullion(), "cluster", "run", "--name", l.Name, "--data-dir", l.DataDir)
	cmd.Dir, cmd.Env = "/", serverEnvironment(os.Environ())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it outlives this terminal
	// Nor may it keep files inherited from a shell, such as the lock of flock(1). Files
	// that this process has opened are closed anyway.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return false, fmt.Errorf("start supervisor: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("start supervisor: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), startLimit,
		fmt.Errorf("it is not running after %s", startLimit))
	defer cancel()
	ctx, exited := context.WithCancelCause(ctx)
	go func() {
		_ = cmd.Wait() // the log has the reason
		exited(errors.New("it exited immediately"))
	}()
	if supervise.Await(ctx, nil, lookEvery, func() error {
		pid, err := durable.Holder(l.lock())
		if err != nil {
			return err
		}
		if pid != cmd.Process.Pid {
			return errors.New("it has no lock")
		}
		conn, err := supervise.Dial(l.run())
		if err == nil {
			_ = conn.Close() // nothing was sent
		}
		return err
	}) != nil {
		return true, fmt.Errorf("start supervisor: %w: %s", context.Cause(ctx), lastLine(l.log("supervisor")))
	}
	return true, nil
}

// Stop stops the supervisor and with it the whole cluster, and waits until it has
// exited. It is not an error if the supervisor is not running.
func Stop(ctx context.Context, l Layout) error {
	pid, err := durable.Holder(l.lock())
	if err != nil || pid == 0 {
		return err
	}
	// It gives up its lock a little before it ends.
	process, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop supervisor (process %d): %w", pid, err)
	}
	defer unix.Close(process)
	err = unix.PidfdSendSignal(process, unix.SIGTERM, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("stop supervisor (process %d): %w", pid, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stopLimit,
		fmt.Errorf("process %d still runs after %s", pid, stopLimit))
	defer cancel()
	if err := awaitExit(ctx, process); err != nil {
		return fmt.Errorf("stop supervisor: %w", err)
	}
	return nil
}

// awaitExit waits until the process of a descriptor has exited.
func awaitExit(ctx context.Context, process int) error {
	for {
		// A process that has ended is readable: pidfd_open(2).
		fds := []unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(lookEvery.Milliseconds()))
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for a process: %w", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// FailedError is returned for a component that cannot run, even after retries.
type FailedError struct {
	Component string
	Reason    string
}

func (e *FailedError) Error() string { return e.Component + " cannot run: " + e.Reason }

// Watch calls f for each component whenever its status changes, until all
// visible components are ready. It fails if the supervisor ends, and if a component
// has failed for good.
func Watch(ctx context.Context, l Layout, want []Row, f func(supervise.Status)) error {
	seen := map[string]supervise.Status{}
	err := follow(ctx, l, func(st State) (bool, error) {
		for _, c := range st.Components {
			if seen[c.Name] != c {
				seen[c.Name] = c
				f(c)
			}
			if c.State == supervise.Failed {
				return false, &FailedError{Component: c.Name, Reason: c.Message}
			}
		}
		return unready(want, seen) == "", nil
	})
	if err != nil && ctx.Err() != nil {
		missing := append(causes(want, seen), unready(want, seen))
		return fmt.Errorf("%w: %s", context.Cause(ctx), strings.Join(missing, ", "))
	}
	return err
}

// causes names the failing components without a row, because rows may wait for them: "network
// (restarting: …)".
func causes(want []Row, seen map[string]supervise.Status) []string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		st := seen[name]
		row := slices.ContainsFunc(want, func(r Row) bool { return r.Name == name })
		if !row && st.State != supervise.Ready && st.Message != "" {
			parts = append(parts, describe(st))
		}
	}
	return parts
}

// describe names a component and its state: "win-1 (starting: …)" or "win-1 (waiting)".
func describe(st supervise.Status) string {
	if st.Message == "" {
		return fmt.Sprintf("%s (%s)", st.Name, st.State)
	}
	return fmt.Sprintf("%s (%s: %s)", st.Name, st.State, st.Message)
}

// unready names the rows that are not ready: "win-1 (starting: …), win-2 (waiting)".
func unready(want []Row, seen map[string]supervise.Status) string {
	var parts []string
	for _, r := range want {
		st, ok := seen[r.Name]
		switch {
		case !ok:
			parts = append(parts, r.Name+" (not begun)")
		case st.State != supervise.Ready:
			parts = append(parts, describe(st))
		}
	}
	return strings.Join(parts, ", ")
}

// lastLine returns the last line of a log that is not a hint, for an error message; logs of failed starts are short.
func lastLine(path string) string {
	const tail = 4096 // bytes
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > tail {
		// A seek error leaves us at the start, which is as good.
		_, _ = f.Seek(-tail, io.SeekEnd)
	}
	content, err := io.ReadAll(io.LimitReader(f, tail))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	for len(lines) > 1 && strings.HasPrefix(lines[len(lines)-1], "mullion: hint: ") {
		lines = lines[:len(lines)-1] // below the error that it is about
	}
	return lines[len(lines)-1]
}
