// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FillPrefix fills a prefix: wineboot writes Wine's files and registry. The arguments are the directory of the
// runtime, which becomes the root directory, because Wine needs the C library that it was built for, and the prefix.
//
// FillPrefix must run as the first process of a PID namespace and in a separate mount
// namespace: all other processes of the PID namespace end with it. Wine's programs detach
// themselves from the one that starts them, and some of those whose start is interrupted
// would stay: a server to which no program has connected waits for its first one.
func FillPrefix(args []string) error {
	if os.Getpid() != 1 || len(args) != 2 {
		return errors.New("fill Wine prefix: want a runtime, a prefix and a PID namespace")
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
	if err := os.Chdir("/"); err != nil {
		return err
	}
	const dir = "/usr/lib/wine/"
	if err := inherit(dir+"wine64", "wineboot.exe", "--init"); err != nil {
		return fmt.Errorf("run wineboot: %w", err)
	}
	// The first fails where no server runs any more.
	_ = inherit(dir+"wineserver", "-k")
	_ = inherit(dir+"wineserver", "-w")
	return nil
}

// inherit runs a program with the environment and the output of this one.
func inherit(path string, args ...string) error {
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
