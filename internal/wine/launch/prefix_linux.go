// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// FillPrefix fills the prefix that the environment names. The arguments are the paths of
// Wine's loader, which runs wineboot, and of its server, which writes the registry
// when it is ended.
//
// FillPrefix must run as the first process of a PID namespace and in a separate mount
// namespace: all other processes of the PID namespace end with it. Wine's programs detach
// themselves from the one that starts them, and some of those whose start is interrupted
// would stay: a server to which no program has connected waits for its first one.
func FillPrefix(args []string) error {
	if os.Getpid() != 1 || len(args) != 2 {
		return errors.New("fill Wine prefix: want a loader, a server and a PID namespace")
	}
	// The server finds its programs below /proc by their numbers in the namespace.
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount proc: %w", err)
	}
	loader, server := args[0], args[1]
	if err := inherit(loader, "wineboot.exe", "--init"); err != nil {
		return fmt.Errorf("run wineboot: %w", err)
	}
	// The first fails where no server runs any more.
	_ = inherit(server, "-k")
	_ = inherit(server, "-w")
	return nil
}

// inherit runs a program with the environment and the output of this one.
func inherit(path string, args ...string) error {
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
