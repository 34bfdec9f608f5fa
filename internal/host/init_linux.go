// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/agent/logfile"
	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/nodeapi"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// File descriptors that process 1 inherits from the parent.
const (
	fdBoot    = 3 // the parent's end writes a byte, then the boot document
	fdReports = 4 // process 1 writes a report per line
	fdDisk    = 5 // a mount of the host's disk, see TakeDisk
	fdVolumes = 6 // a socket: process 1 sends images of volumes and gets mounts, see Volumes
)

// ready is the argument of the second life of process 1.
const ready = "ready"

// Init is process 1 of a host. It begins twice: the parent moves the process into
// its cgroup and says go; then a cgroup namespace is made, whose root is that
// cgroup, and because a namespace of that kind belongs to a thread, only executing
// the program again gives it to all of them. narrow, if not nil, is called just
// before that, on the thread that executes: rights that it gives up, no process of
// the host has. The second life reads the boot document and calls run.
func Init[Boot any](ctx context.Context, args []string, narrow func() error,
	run func(context.Context, Boot, *Reporter) error) error {
	if len(args) == 0 {
		return fmt.Errorf("begin host: %w", enterCgroup(narrow))
	}
	reports := os.NewFile(fdReports, "reports")
	// Programs of the host inherit no descriptors, neither these nor any from the
	// shell of `mullion up`: a descriptor would be a way to the machine.
	err := unix.CloseRange(fdBoot, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	var boot Boot
	if err == nil {
		err = ReadBoot(os.NewFile(fdBoot, "boot"), &boot)
	}
	if err == nil {
		err = run(ctx, boot, &Reporter{to: reports})
	}
	if err != nil {
		// Report to the parent, because our own standard error is only a log.
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

// initGroup is the cgroup of the host's own programs, in the host's cgroup.
const initGroup = "init"

// SplitCgroup makes room for containers in the host's cgroup, which its processes
// see as the root: pods is the path of their parent.
func SplitCgroup(hs cgroup.Hierarchies, pods string) error {
	return hs.Group("/").Split(initGroup, pods, os.Getpid())
}

// OpenLogs opens the log file of each component, in the host's directory.
func OpenLogs(dir string, components ...string) (map[string]io.Writer, error) {
	logs := map[string]io.Writer{}
	for _, name := range components {
		l, err := logfile.Open(filepath.Join(dir, "logs", name+".log"), logfile.DefaultBytes, logfile.DefaultKeep)
		if err != nil {
			return nil, err
		}
		logs[name] = l
	}
	return logs, nil
}

// ForgetOtherCluster calls forget if the file has the CA of another cluster than the host's: the host's identity in
// that cluster is worthless in this one and would keep it from joining.
func ForgetOtherCluster(file string, ca []byte, forget func() error) error {
	old, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && bytes.Equal(old, ca) {
		return nil
	}
	if err == nil {
		err = forget()
	}
	if err != nil {
		return fmt.Errorf("forget the former cluster: %w", err)
	}
	return nil
}

// Supervise runs the components of a host until the context ends, and buries
// orphans meanwhile. It returns an error if the host has to restart, because a component does not
// answer and restarts of it do not help, or because its disk cannot be written any more; disk is a
// directory on it. connect makes a client with the node's identity, for events about restarts.
func Supervise(ctx context.Context, components []supervise.Component, reap *Reaper, reports *Reporter,
	connect func() (*nodeapi.Client, error), disk string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, end := context.WithCancel(ctx)
	defer end()
	var failed error
	var first sync.Once
	fail := func(err error) {
		first.Do(func() { failed = err })
		end()
	}
	var events sync.WaitGroup
	defer events.Wait()
	frozen := func(_, message string, hopeless bool) {
		if hopeless {
			message += "; that does not help, so the host is started again"
			fail(errors.New(message))
		}
		events.Go(func() { warn(connect, message, log) })
	}
	s, err := supervise.New(supervise.Config{
		Components: components, OnChange: reports.components, OnFrozen: frozen, Log: log})
	if err != nil {
		return err
	}
	reaped := make(chan struct{})
	rctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() { defer close(reaped); reap.run(rctx) }()
	var tended sync.WaitGroup
	tended.Go(func() {
		if err := tendDisk(ctx, disk, log); err != nil {
			fail(err)
		}
	})
	err = s.Run(ctx)
	end()
	tended.Wait()
	stop()
	<-reaped
	return errors.Join(err, failed)
}

// warn records an event about the node. It needs no context: a request ends after 10 s.
func warn(connect func() (*nodeapi.Client, error), message string, log *slog.Logger) {
	api, err := connect()
	if err == nil {
		err = api.Warn(context.Background(), time.Now(), nodeapi.ReasonFrozen, message)
	}
	if err != nil {
		log.Warn("event about the node not recorded", logkey.Reason, message, logkey.Error, err)
	}
}
