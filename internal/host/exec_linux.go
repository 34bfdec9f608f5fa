// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/durable"
)

// ErrDown is returned for a host that does not run.
var ErrDown = errors.New("the host does not run")

// Program is a program to run on a host beside the components of process 1.
type Program struct {
	Argv, Env []string
	GID       uint32
}

// RunningInit returns the process ID of process 1 of a host. The lock of the host's
// directory shows that the status is of a process that lives.
func RunningInit(dir, statusFile string) (int, error) {
	pid, err := durable.Holder(filepath.Join(dir, "lock"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("look at host: %w", err)
	}
	if pid == 0 {
		return 0, ErrDown
	}
	st, err := ReadStatus(statusFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if st.PID != pid || st.Phase != Running || st.InitPID == 0 {
		return 0, fmt.Errorf("%w yet: it is being prepared, or stopped", ErrDown)
	}
	return st.InitPID, nil
}

// Exec replaces this process by a program in a host's namespaces and cgroup, so that
// the host's limits hold for it and it ends with the host. describe is given the
// host's root directory, as seen from here. Exec returns only if it fails.
func Exec(c Config, narrow func() error, describe func(root string) (Program, error)) error {
	pid, err := RunningInit(c.Dir, c.Status)
	if err != nil {
		return err
	}
	p, err := describe(fmt.Sprintf("/proc/%d/root", pid))
	if err != nil {
		return err
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return fmt.Errorf("enter host %s: %w: install util-linux", c.Name, err)
	}
	hs, err := cgroup.Find()
	if err != nil {
		return err
	}
	if err := hs.Group(clusterGroup(c.Cluster)).Child(c.Name).Child(initGroup).Enter(os.Getpid()); err != nil {
		return fmt.Errorf("enter host %s: %w", c.Name, err)
	}
	// It inherits only the three standard streams from the machine.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("enter host %s: %w", c.Name, err)
	}
	return fmt.Errorf("enter host %s: %w", c.Name, enter(nsenter, enterArgv(pid, p), p.Env, narrow))
}

// enterArgv is the command line of nsenter(1).
func enterArgv(pid int, p Program) []string {
	// --wd without a value is the directory of the target. With one, or without the flag,
	// it would be a directory of the machine.
	argv := []string{"nsenter", "--target", strconv.Itoa(pid), "--mount", "--uts", "--ipc", "--net", "--pid",
		"--cgroup", "--root", "--wd", "--setuid", "0", "--setgid", strconv.FormatUint(uint64(p.GID), 10), "--"}
	return append(argv, p.Argv...)
}
