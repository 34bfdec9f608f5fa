// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/supervise"
)

// stopInit is how long process 1 has to stop in order before it is killed: it
// stops its components one after the other.
const stopInit = 9500 * time.Millisecond

// initProcess is process 1 of a host, seen from outside.
type initProcess struct {
	cmd     *exec.Cmd
	boot    *os.File // we write
	reports *os.File // we read
	ended   chan struct{}
	err     error // set when ended is closed
}

// startInit starts process 1 in its namespaces. It waits for connect.
func startInit(c Spec, disk *os.File) (_ *initProcess, err error) {
	bootR, bootW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start process 1: %w", err)
	}
	defer bootR.Close()
	reportR, reportW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start process 1: %w", err), bootW.Close())
	}
	defer reportW.Close()
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start process 1: %w", err), bootW.Close(), reportR.Close())
		}
	}()
	sockets, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	volumesR, volumesW := os.NewFile(uintptr(sockets[0]), "volumes"), os.NewFile(uintptr(sockets[1]), "volumes")
	defer volumesW.Close()
	defer func() {
		if err != nil {
			err = errors.Join(err, volumesR.Close())
		}
	}()
	inherited := []*os.File{bootR, reportW, disk, volumesW}
	for _, name := range c.Descriptors {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		inherited = append(inherited, f)
	}
	// Keep the previous run's log: it shows why init exited.
	name := filepath.Join(c.Dir, "logs", "init.log")
	if err := os.Rename(name, name+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	log, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe", "init")
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin", "LC_ALL=C.UTF-8"}
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = inherited
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWNS,
		Setsid:     true,
		Pdeathsig:  syscall.SIGKILL,
	}
	in := &initProcess{cmd: cmd, boot: bootW, reports: reportR, ended: make(chan struct{})}
	if err := supervise.NewSpawner().Start(cmd); err != nil {
		return nil, err
	}
	// It ends with process 1, which has the other end of the socket.
	go mountVolumes(context.Background(), volumesR)
	go func() {
		in.err = cmd.Wait()
		if in.err == nil {
			in.err = errors.New("exit status 0")
		}
		close(in.ended)
	}()
	return in, nil
}

func (in *initProcess) pid() int { return in.cmd.Process.Pid }

// stop sends process 1 a request to shut the host down.
func (in *initProcess) stop() error {
	// An error means that it has ended.
	_ = in.cmd.Process.Signal(syscall.SIGTERM)
	_ = in.cmd.Process.Signal(syscall.SIGCONT) // if a signal has stopped it
	select {
	case <-in.ended:
		return nil
	case <-time.After(stopInit):
		return in.kill()
	}
}

// kill ends process 1 and with it everything in the host.
func (in *initProcess) kill() error {
	if err := in.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process 1: %w", err)
	}
	<-in.ended
	return nil
}
