// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"os"

	"github.com/mullion-k8s/mullion/internal/cri/engine"
	"github.com/mullion-k8s/mullion/internal/cri/oci"
)

// Engine runs Windows programs in containers. It is wineengine.Engine in
// production; tests put one in its place that runs Linux programs. This package
// calls Wine only through Engine and HostProcesses.
type Engine interface {
	// DefaultUser names the account of a container if neither the pod nor the image does.
	DefaultUser() string
	// HasUser reports whether a container with the computer name has the account.
	HasUser(user, computer string) bool
	// Layers are the overlayfs layers of a container that runs as the user.
	Layers(ctx context.Context, user, computer string) (engine.Layers, error)
	// WriteMachine writes what the programs of a container that was not started yet
	// find about its machine: the network, and the processors. root is its root
	// directory.
	WriteMachine(root *os.Root, n engine.Network) error
	// Drive is where the root directory holds drive C.
	Drive() string
	// Process describes a program; p.Status names the file, in the directory
	// that the container sees as StatusDir, that will have its exit status.
	Process(p engine.Program) oci.Process
	StatusDir() string
	// Owner is the user that an image's files belong to; -1 leaves them alone.
	Owner() (uid, gid int)
	// Started waits until the program of a container runs, given the PID of its
	// init and the file of its status. The error is Windows' own if it does not.
	Started(ctx context.Context, pid int, status string) error
	// Status reads the status file of a program that has ended. The error is
	// fs.ErrNotExist if the program was killed.
	Status(file string) (engine.Status, error)
}

// HostProcesses runs the programs of HostProcess containers on the emulated host
// itself, in containers that differ in their root directory and isolation. It is
// hostprocess.Host in production. The ends of programs are read from Engine.
type HostProcesses interface {
	// LogOn returns Windows' error if the container cannot run as the user.
	LogOn(user, container string) error
	// Main completes the environment, directory and arguments of the main program.
	Main(p engine.Program) engine.Program
	// Process describes a program that Main has completed, or one with its
	// environment and directory.
	Process(p engine.Program) oci.Process
	// Make makes the container's view of the disk. Remove takes it down, as far as
	// it exists; Containers lists the containers that have a view.
	Make(c engine.HostContainer) error
	Remove(id string) error
	Containers() []string
	// Spec describes the isolation and the root directory.
	Spec(c engine.HostContainer) oci.Config
}
