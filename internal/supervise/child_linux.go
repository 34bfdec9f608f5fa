// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Command describes a program to run as a component.
type Command struct {
	Argv []string // Argv[0] is the program's path
	Env  []string // complete; nil inherits
	Dir  string
	// Stop is the time for the program to end after SIGTERM before it is killed with its
	// process group.
	Stop time.Duration
	// Log receives stderr and, unless Out is set, stdout.
	Log, Out io.Writer
	// OnStart is called with the process ID.
	OnStart func(pid int)
}

// Spawner starts programs from one operating-system thread that lives as long
// as the process. The kernel ties the parent-death signal to the *thread* that
// forked (prctl(2), PR_SET_PDEATHSIG); Go's scheduler ends threads at will, so
// starting children from ordinary goroutines would kill them at random.
type Spawner struct {
	jobs chan func()
}

// NewSpawner starts the thread.
func NewSpawner() *Spawner {
	s := &Spawner{jobs: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the process
		for job := range s.jobs {
			job()
		}
	}()
	return s
}

// Start starts a program.
func (s *Spawner) Start(cmd *exec.Cmd) error {
	started := make(chan error)
	s.jobs <- func() { started <- cmd.Start() }
	return <-started
}

// Child returns a component's Run function for a program. The program gets
// SIGTERM when the context is cancelled, or when this process dies for any reason.
func (s *Spawner) Child(c Command) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
		cmd.Env, cmd.Dir = c.Env, c.Dir
		cmd.Stdout, cmd.Stderr = c.Log, c.Log
		if c.Out != nil {
			cmd.Stdout = c.Out
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
		// Do not wait for a grandchild that keeps the pipe open.
		cmd.WaitDelay = time.Second
		if err := s.Start(cmd); err != nil {
			return fmt.Errorf("start %s: %w", c.Argv[0], err)
		}
		if c.OnStart != nil {
			c.OnStart(cmd.Process.Pid)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			return describe(c.Argv[0], err)
		case <-ctx.Done():
		}
		// If one of the signals fails, the process is gone, and Wait returns.
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Process.Signal(syscall.SIGCONT) // a program that was stopped ends in order, too
		select {
		case <-ended: //nolint:errcheck // it was told to end
		case <-time.After(c.Stop):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended //nolint:errcheck // it was killed
		}
		return ctx.Err()
	}
}

func describe(program string, err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%s ended: %w", program, exit)
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("wait for %s: %w", program, err)
	}
	return fmt.Errorf("%s ended: exit status 0", program)
}
