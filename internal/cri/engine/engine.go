// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package engine defines the interface between the CRI server and its two engines:
// wineengine, which runs Windows programs in containers, and hostprocess, which
// runs programs of HostProcess containers on the emulated host. It has no effects,
// and doesn't depend on Wine.
package engine

import (
	"errors"
	"net/netip"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Program is a Windows program that a container runs.
type Program struct {
	// Container is the container's ID.
	Container string
	// Args is the command as an image or a pod gives it: a program (a path, or a
	// name to look for in Path) and its arguments.
	Args []string
	// CommandLine, if set, is used instead of Args: a Windows command line that
	// must reach the program as it is (images with ArgsEscaped).
	CommandLine string
	// Env has the form NAME=value.
	Env []string
	// Dir is the working directory, a Windows path; empty for C:\.
	Dir string
	// User is the account's name, in any spelling that Windows accepts. The
	// server has checked at the start of the container that it exists.
	User string
	// Computer is the container's computer name.
	Computer string
	// Status is the name of the file, in the directory of status files, that will
	// have the program's exit status.
	Status string
	// Exec is set for a program that joins a running container.
	Exec bool
}

// Layers are the overlayfs layers of a container, each list with the lowest first.
type Layers struct {
	// Below and Above are the layers of drive C around an image's own.
	Below, Above []string
	// Linux are the layers of the root directory; empty if drive C is that
	// directory.
	Linux []string
}

// Network is a container's network configuration, which programs find in the
// registry.
type Network struct {
	Index     int // of the adapter
	Adapter   string
	Addresses []netip.Prefix
	Gateway   netip.Addr
	Servers   []string // of DNS
	Suffix    string
}

// Status is the exit status of a program.
type Status struct {
	// ExitCode is the code that GetExitCodeProcess would return.
	ExitCode uint32
	// Error is Windows' text for why the program could not be started.
	Error string
}

// HostContainer is a HostProcess container's share of the disk. The paths are
// directories on Linux.
type HostContainer struct {
	ID string
	// Image is where the image's files are mounted.
	Image string
	// Root becomes the root directory on the Linux side.
	Root string
	// Status holds the status files.
	Status string
	// Mounts are the pod's volumes.
	Mounts []*runtime.Mount
}

// ErrLogon is Windows' text for ERROR_LOGON_FAILURE (0x8007052e), the error for
// an account that does not exist.
var ErrLogon = errors.New("The user name or password is incorrect.") //nolint:staticcheck // Windows' own words
