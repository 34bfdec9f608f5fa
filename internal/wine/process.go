// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/wine/launch"
)

// Paths inside a container.
const (
	// InitPath is the program that is PID 1 of a container and the parent of
	// each process that exec starts.
	InitPath = "/usr/lib/mullion/init"
	// StatusDir is where the CRI server mounts a private directory, writable for
	// ContainerUID, for the status files of init.
	StatusDir = "/run/mullion"
	// containerPrefix is Wine's prefix.
	containerPrefix = "/.wine"
	// ContainerDrive is where drive C: is mounted. It is not the root directory:
	// programs of Windows must not meet Linux' own directories, and C:\dev and
	// C:\etc are theirs.
	ContainerDrive = containerPrefix + "/drive_c"
)

// Process is a Windows process to start in a container.
type Process struct {
	// Args is the command as an image or a pod gives it: a program (a path, or a
	// name to look for in Path) and its arguments.
	Args []string
	// CommandLine, if set, is used instead of Args: a Windows command line that
	// must reach the program as it is (images with ArgsEscaped).
	CommandLine string
	// Env is the process's environment in the form NAME=value. Other variables come
	// from the container's registry (Path, ProgramFiles, USERNAME …).
	Env []string
	// Dir is the working directory, a Windows path; empty for C:\.
	Dir string
	// Status is the name of the file in StatusDir that gets the Status of the
	// process; may be empty.
	Status string
	// Account is who runs the process; the zero value is ContainerAdministrator.
	Account Account
	// Computer is the container's name.
	Computer string
	// Exec is set for a process that joins a running container. Without it the
	// process is the container's main one, and init runs as PID 1.
	Exec bool
}

// ContainerProcess returns the argv, environment and working directory of the
// OCI process that runs p. Its user and group are the account's.
func ContainerProcess(p Process) (argv, env []string, cwd string) {
	argv = append(append([]string{InitPath}, p.flags()...), "--")
	argv = append(argv, p.Args...)
	account := p.Account
	if account.Name == "" {
		account = Accounts()[0]
	}
	return argv, programEnv(ownVariables(account.Name), account.environment(p.Computer), p.Env), "/"
}

// flags are init's, as far as containers of both kinds have them.
func (p Process) flags() []string {
	var flags []string
	if p.Exec {
		flags = append(flags, "-exec")
	}
	if p.Dir != "" {
		flags = append(flags, "-dir", p.Dir)
	}
	if p.Status != "" {
		flags = append(flags, "-status", p.Status)
	}
	if p.CommandLine != "" {
		flags = append(flags, "-command-line", p.CommandLine)
	}
	return flags
}

// ownVariables returns the variables that Wine itself needs in a container. Wine
// takes the account's name from USER.
func ownVariables(user string) []string {
	return []string{
		"WINEPREFIX=" + containerPrefix,
		"WINELOADER=/" + loaderPath,
		"WINESERVER=/usr/lib/wine/wineserver",
		"WINEDEBUG=-all",
		"USER=" + user,
		"LC_ALL=C.UTF-8",
	}
}

// programEnv puts launch.EnvPrefix before the program's variables: Wine would let
// the registry override it (dlls/ntdll/unix/env.c, add_registry_environment), and
// keep some of it from the program. winemend.dll takes the prefix off. Of two equal
// names the last counts.
func programEnv(own, account, env []string) []string {
	out := own
	for _, e := range append(account, env...) {
		name, _, ok := strings.Cut(e, "=")
		upper := strings.ToUpper(name)
		// A program cannot set variables that control Wine: WINEPREFIX or
		// LD_PRELOAD in a manifest would be for another program than the one the
		// author meant.
		if !ok || name == "" || strings.HasPrefix(upper, "WINE") || strings.HasPrefix(upper, "LD_") ||
			upper == "LC_ALL" {
			continue
		}
		e = launch.EnvPrefix + e
		out = slices.DeleteFunc(out, func(have string) bool {
			return len(have) > len(launch.EnvPrefix)+len(name) &&
				strings.EqualFold(have[:len(launch.EnvPrefix)+len(name)+1], e[:len(launch.EnvPrefix)+len(name)+1])
		})
		out = append(out, e)
	}
	return out
}
