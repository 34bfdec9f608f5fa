// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package runc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/console/inband"
)

// Size is the size of a terminal, in characters.
type Size struct {
	Width, Height uint16
}

// Exec describes another process in a running container.
type Exec struct {
	ID      string // of the container
	Bundle  string // of the container
	Process *specs.Process
	Stdin   io.Reader // nil means no input
	Stdout  io.Writer
	Stderr  io.Writer   // unused with a terminal
	Resize  <-chan Size // nil keeps the size
	first   Size        // the size from Resize before the start
}

// lingerWait is how long to wait for output after the process has exited. A
// background process that it left behind keeps the pipes open, and runc waits
// for them, but the caller does not want to. Windows' CRI waits as long as runc
// ("drainExecSyncIOTimeout" is unset there; Docker's is 10 s, too long for a
// probe); 500 ms is about ten times as long as a normal exit takes.
const lingerWait = 500 * time.Millisecond

// Exec runs the process to its end and returns its exit code. If the context
// ends first, the process is killed and the context's error returned.
func (r *Runtime) Exec(ctx context.Context, e Exec) (code int, err error) {
	if e.Process.Terminal {
		// runc copies the size of its terminal to the process's after the start.
		// The process must find it there: Windows programs get no signal.
		e.first = firstSize(e.Resize)
		p := *e.Process
		p.ConsoleSize = &specs.Box{Width: uint(e.first.Width), Height: uint(e.first.Height)}
		e.Process = &p
	}
	spec, err := json.Marshal(e.Process)
	if err != nil {
		return 0, fmt.Errorf("encode process: %w", err)
	}
	dir, err := os.MkdirTemp(e.Bundle, "exec-")
	if err != nil {
		return 0, fmt.Errorf("run in container %s: %w", e.ID, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.WriteFile(filepath.Join(dir, "process.json"), spec, 0o600); err != nil {
		return 0, fmt.Errorf("run in container %s: %w", e.ID, err)
	}
	pidfile, logfile := filepath.Join(dir, "pid"), filepath.Join(dir, "log")
	// The context must not kill runc itself: the process would live on.
	cmd := r.command(context.WithoutCancel(ctx), "--log", logfile, "exec", "--process",
		filepath.Join(dir, "process.json"), "--pid-file", pidfile, e.ID)
	start := r.startPipes
	if e.Process.Terminal {
		start = r.startTerminal
	}
	p, err := start(cmd, e)
	if err != nil {
		return 0, fmt.Errorf("run in container %s: %w", e.ID, err)
	}
	status := waitExec(ctx, cmd, p, pidfile)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	var exit *exec.ExitError
	switch {
	case status == nil:
		return 0, nil
	case !errors.As(status, &exit):
		return 0, fmt.Errorf("run in container %s: %w", e.ID, status)
	}
	if _, err := os.Stat(pidfile); err != nil {
		// The process never was: runc's own status and words.
		text, _ := os.ReadFile(logfile) // without it the exit status must do
		return 0, fmt.Errorf("run in container %s: %w", e.ID, explain(ctx, status, string(text)))
	}
	return exitCode(exit), nil
}

func exitCode(e *exec.ExitError) int {
	if ws, ok := e.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return e.ExitCode()
}

// running is a process that runc has started.
type running struct {
	done   <-chan error
	hangUp func() // reports that the terminal is gone; nil without a terminal
}

// hangUpWait is how long a process may go on without its terminal. The console
// host gives the programs five seconds to end and then ends them.
const hangUpWait = 6 * time.Second

// startLimit is how long runc may take to start a process, far more than it takes
// on a busy machine: beyond that, runc is stuck.
const startLimit = 30 * time.Second

// waitExec waits for runc. If the context ends, waitExec hangs up the process's
// terminal, or kills a process without a terminal. It kills runc if only other
// processes keep the output open.
func waitExec(ctx context.Context, cmd *exec.Cmd, p running, pidfile string) error {
	started, gone := make(chan int, 1), make(chan struct{})
	stopWatch := make(chan struct{})
	defer close(stopWatch)
	go watchPID(pidfile, started, gone, stopWatch)
	pid, condemned := 0, false
	var linger, hungUp <-chan time.Time
	ended := ctx.Done()
	kill := func() {
		condemned = true
		if pid == 0 {
			// Without runc the process that it is about to start would live on.
			linger = time.After(startLimit)
			return
		}
		// runc makes the process a session leader, so its PID is also the group ID
		// of its children.
		_ = unix.Kill(-pid, unix.SIGKILL)
		_ = unix.Kill(pid, unix.SIGKILL)
		linger = time.After(lingerWait)
	}
	for {
		select {
		case err := <-p.done:
			return err
		case pid = <-started:
			if condemned {
				kill()
			}
		case <-gone:
			gone = nil
			linger = time.After(lingerWait)
		case <-linger:
			_ = cmd.Process.Kill() // it may just have ended
			linger = nil
		case <-ended:
			ended = nil
			if p.hangUp == nil {
				kill()
				break
			}
			p.hangUp()
			hungUp = time.After(hangUpWait)
		case <-hungUp:
			kill()
		}
	}
}

// watchPID sends the process in pidfile to started once it is there, and closes
// gone when it has ended.
func watchPID(pidfile string, started chan<- int, gone chan<- struct{}, stop <-chan struct{}) {
	fd := -1
	for fd < 0 {
		select {
		case <-stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
		pid := readPID(pidfile)
		if pid == 0 {
			continue
		}
		started <- pid
		var err error
		if fd, err = unix.PidfdOpen(pid, 0); err != nil {
			close(gone) // ended before we looked
			return
		}
	}
	defer func() { _ = unix.Close(fd) }() // only polled
	for {
		select {
		case <-stop:
			return
		default:
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			close(gone)
			return
		}
	}
}

func readPID(name string) int {
	data, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0
	}
	return pid
}

// startPipes starts runc with pipes for the three streams.
func (r *Runtime) startPipes(cmd *exec.Cmd, e Exec) (running, error) {
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = e.Stdout, e.Stderr
	if cmd.Stderr == nil {
		cmd.Stderr = &stderr
	}
	if e.Stdin != nil {
		in, err := cmd.StdinPipe()
		if err != nil {
			return running{}, err
		}
		// Not through cmd.Stdin: Wait would wait for a client that sends no more
		// data.
		go func() {
			_, _ = io.Copy(in, e.Stdin) // the process may end first
			_ = in.Close()
		}()
	}
	if err := cmd.Start(); err != nil {
		return running{}, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	return running{done: done}, nil
}

// firstSizeWait is how long the start waits for the size of the client's window.
// kubectl sends it at once; a client without a window sends no size.
const firstSizeWait = 100 * time.Millisecond

// firstSize waits for the initial size of a terminal. It returns the zero value if
// no size comes.
func firstSize(sizes <-chan Size) Size {
	if sizes == nil {
		return Size{}
	}
	select {
	case s := <-sizes:
		return s
	case <-time.After(firstSizeWait):
		return Size{}
	}
}

// startTerminal starts runc on a separate terminal, which it connects to the one
// that runc makes in the container.
func (r *Runtime) startTerminal(cmd *exec.Cmd, e Exec) (running, error) {
	master, slave, err := openTerminal()
	if err != nil {
		return running{}, fmt.Errorf("open terminal: %w", err)
	}
	_ = resize(master, e.first) // on failure the terminal keeps its size
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	_ = slave.Close() // runc has its copy
	if err != nil {
		_ = master.Close() // no data was written
		return running{}, err
	}
	if e.Stdin != nil {
		go func() { _, _ = io.Copy(master, e.Stdin) }() // ends with the client or the terminal
	}
	stop := make(chan struct{})
	go func() {
		last := e.first
		for {
			select {
			case size, ok := <-e.Resize:
				if !ok {
					return
				}
				if size == last {
					continue
				}
				last = size
				_ = resize(master, size) // a terminal that is gone has no size
				_, _ = master.Write(inband.Report(size.Width, size.Height))
			case <-stop:
				return
			}
		}
	}()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		if e.Stdout != nil {
			// EIO is how the master's reader learns that the last slave closed.
			_, _ = io.Copy(e.Stdout, master)
		}
	}()
	done := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		select {
		case <-copied:
		case <-time.After(lingerWait):
		}
		close(stop)
		_ = master.Close() // ends the copying
		done <- err
	}()
	hangUp := func() {
		// Closing the terminal would not reach the process: runc keeps a second one
		// in between. The write may block or fail; the process is killed later.
		go func() { _, _ = master.WriteString(inband.Gone) }()
	}
	return running{done: done, hangUp: hangUp}, nil
}
