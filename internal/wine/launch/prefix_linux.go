// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// FillPrefix fills a prefix: wineboot writes Wine's files and registry. The arguments are those of enterRuntime.
func FillPrefix(args []string) error {
	if err := enterRuntime(args); err != nil {
		return err
	}
	defer endWine()
	if err := inherit(loader, "wineboot.exe", "--init"); err != nil {
		return fmt.Errorf("run wineboot: %w", err)
	}
	return nil
}

// UnfitError is the number of functions of Wine that winemend.dll cannot replace.
type UnfitError int

func (n UnfitError) Error() string {
	return fmt.Sprintf("winemend.dll cannot replace %d functions of this Wine, so it is not the one that this version "+
		"of mullion is for: run `make build`, or install mullion with its directory wine", int(n))
}

// CheckWine checks whether winemend.dll can replace the functions of Wine that it is to replace: winemend_check
// (native/winemend/check.c) counts the others. The arguments are those of enterRuntime and the group of a container's
// account, for which more functions are replaced than on a host. The error may be an UnfitError.
func CheckWine(args []string) error {
	if len(args) != 3 {
		return errors.New("want a runtime, a prefix and a group")
	}
	group, err := strconv.ParseUint(args[2], 10, 32)
	if err != nil {
		return fmt.Errorf("group: %w", err)
	}
	if err := enterRuntime(args[:2]); err != nil {
		return err
	}
	defer endWine()
	const fits = 1 // the exit code
	cmd := exec.Command(loader, "rundll32.exe", "winemend.dll,winemend_check")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Gid: uint32(group)}}
	err = cmd.Run()
	switch code := cmd.ProcessState.ExitCode(); { // -1: it did not start, or was killed
	case code == fits:
		return nil
	case code > fits:
		return UnfitError(code - fits)
	case err == nil:
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("run winemend_check of winemend.dll: %w", err)
}

const (
	loader = "/usr/lib/wine/wine64"
	server = "/usr/lib/wine/wineserver"
)

// enterRuntime makes a runtime the root directory, because Wine needs the C library that it was built for, and mounts a
// prefix there. The arguments are their directories.
//
// It must be called in the first process of a PID namespace and in a separate mount
// namespace: all other processes of the PID namespace end with it. Wine's programs detach
// themselves from the one that starts them, and some of those whose start is interrupted
// would stay: a server to which no program has connected waits for its first one.
func enterRuntime(args []string) error {
	if os.Getpid() != 1 || len(args) != 2 {
		return errors.New("enter Wine runtime: want a runtime, a prefix and a PID namespace")
	}
	root, prefix := args[0], args[1]
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{prefix, FilledPrefix, "", unix.MS_BIND},
		{"/dev", "/dev", "", unix.MS_BIND | unix.MS_REC},
		// The server finds its programs below /proc by their numbers in the namespace.
		{"proc", "/proc", "proc", 0},
		{"tmpfs", "/tmp", "tmpfs", 0}, // for the server's socket
	} {
		if err := unix.Mount(m.source, filepath.Join(root, m.target), m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if err := unix.Chroot(root); err != nil {
		return fmt.Errorf("change root to %s: %w", root, err)
	}
	return os.Chdir("/")
}

// endWine ends all programs of Wine.
func endWine() {
	// The first fails where no server runs any more.
	_ = inherit(server, "-k")
	_ = inherit(server, "-w")
}

// inherit runs a program with the environment and the output of this one.
func inherit(path string, args ...string) error {
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
