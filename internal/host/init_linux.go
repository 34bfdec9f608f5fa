// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// File descriptors that process 1 inherits from the parent.
const (
	fdBoot    = 3 // the parent's end writes a byte, then the boot document
	fdReports = 4 // process 1 writes a report per line
)

// ready is the argument of the second life of process 1.
const ready = "ready"

// Init is process 1 of a host. It begins twice: the parent moves the process into
// its cgroup and says go; then a cgroup namespace is made, whose root is that
// cgroup, and because a namespace of that kind belongs to a thread, only executing
// the program again gives it to all of them. narrow, if not nil, is called just
// before that, on the thread that executes: what it gives up, no process of the
// host has. The second life reads the boot document and calls run.
func Init[Boot any](ctx context.Context, args []string, narrow func() error,
	run func(context.Context, Boot, *Reporter) error) error {
	if len(args) == 0 {
		return fmt.Errorf("begin host: %w", enterCgroup(narrow))
	}
	reports := os.NewFile(fdReports, "reports")
	// Programs of the host inherit nothing, neither these nor what the shell of
	// `mullion up` had open: a descriptor would be a way to the machine.
	err := unix.CloseRange(fdBoot, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	var boot Boot
	if err == nil {
		err = ReadBoot(os.NewFile(fdBoot, "boot"), &boot)
	}
	if err == nil {
		err = run(ctx, boot, &Reporter{to: reports})
	}
	if err != nil {
		// The parent is told, because our own standard error is only a log.
		_ = json.NewEncoder(reports).Encode(report{Fatal: err.Error()})
	}
	return err
}

// ReadBoot reads the boot document.
func ReadBoot(r io.Reader, into any) error {
	if err := json.NewDecoder(r).Decode(into); err != nil {
		return fmt.Errorf("read boot document: %w", err)
	}
	return nil
}

// enterCgroup waits for the parent and executes the program again.
func enterCgroup(narrow func() error) error {
	if _, err := unix.Read(fdBoot, make([]byte, 1)); err != nil {
		return fmt.Errorf("wait for the parent: %w", err)
	}
	runtime.LockOSThread()
	// The parent-death signal, too, belongs to a thread, and this need not be the
	// one that has it. If the parent is dead by now, its end of the pipe is closed
	// and there will be no boot document.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("ask to die with the parent: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make cgroup namespace: %w", err)
	}
	return enter("/proc/self/exe", append(os.Args, ready), os.Environ(), narrow)
}

// enter executes a program after narrow, if not nil, on the same thread.
func enter(path string, argv, env []string, narrow func() error) error {
	runtime.LockOSThread()
	if narrow != nil {
		if err := narrow(); err != nil {
			return err
		}
	}
	return unix.Exec(path, argv, env)
}

// initGroup is the cgroup of the host's own programs, in that of the host.
const initGroup = "init"

// SplitCgroup makes room for containers in the host's cgroup, which its processes
// see as the root: pods is the path of their parent.
func SplitCgroup(hs cgroup.Hierarchies, pods string) error {
	return hs.Group("/").Split(initGroup, pods, os.Getpid())
}

// Supervise runs the components of a host until the context ends, and buries
// orphans meanwhile. statusFile is the status document of a
// node agent, which is reported when it changes; "" is none.
func Supervise(ctx context.Context, components []supervise.Component, reap *Reaper, reports *Reporter,
	statusFile string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	s, err := supervise.New(supervise.Config{Components: components, OnChange: reports.components, Log: log})
	if err != nil {
		return err
	}
	reaped := make(chan struct{})
	rctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() { defer close(reaped); reap.run(rctx) }()
	if statusFile != "" {
		go reports.follow(rctx, statusFile)
	}
	err = s.Run(ctx)
	stop()
	<-reaped
	return err
}
