// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package wineengine runs the Windows programs of containers with Wine. It is the
// CRI server's Engine; package hostprocess runs the programs of HostProcess
// containers.
package wineengine

import (
	"context"
	"os"

	"github.com/mullion-k8s/mullion/internal/cri/engine"
	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/wine"
	"github.com/mullion-k8s/mullion/internal/wine/launch"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Engine runs containers of one build of Windows.
type Engine struct {
	runtime *wine.Runtime
	build   winver.Build
}

// New returns the Engine for containers of a build.
func New(r *wine.Runtime, build winver.Build) Engine { return Engine{r, build} }

// defaultAccount is the default of Windows Server Core.
func defaultAccount() wine.Account { return wine.Accounts()[0] }

// DefaultUser returns the account of a container without a user name.
func (Engine) DefaultUser() string { return defaultAccount().Name }

// HasUser reports whether a container with the computer name has the account.
func (Engine) HasUser(user, computer string) bool {
	_, ok := wine.FindAccount(user, computer)
	return ok
}

// account finds an account. The default one stands in for an account that does not
// exist: as on Windows, only the start of the container finds out (HasUser).
func account(user, computer string) wine.Account {
	if a, ok := wine.FindAccount(user, computer); ok {
		return a
	}
	return defaultAccount()
}

// Layers returns the overlayfs layers of a container that runs as the user.
func (e Engine) Layers(ctx context.Context, user, computer string) (engine.Layers, error) {
	a := account(user, computer)
	below, err := e.runtime.ContainerLayers(ctx, e.build)
	if err != nil {
		return engine.Layers{}, err
	}
	profile, err := e.runtime.AccountLayer(ctx, a)
	if err != nil {
		return engine.Layers{}, err
	}
	linux, err := e.runtime.LinuxLayers(ctx, e.build, a)
	if err != nil {
		return engine.Layers{}, err
	}
	return engine.Layers{Below: below, Above: []string{profile}, Linux: linux}, nil
}

// WriteMachine writes a container's network into its registry in the root directory,
// and the processors into the file that Wine reads.
func (Engine) WriteMachine(root *os.Root, n engine.Network) error {
	if err := wine.Network(n).WriteContainer(root); err != nil {
		return err
	}
	return wine.WriteProcessors(root)
}

// Drive is where a container's root directory holds drive C.
func (Engine) Drive() string { return wine.ContainerDrive }

// Process describes the Linux process that runs a program in a container.
func (Engine) Process(p engine.Program) oci.Process {
	a := account(p.User, p.Computer)
	argv, env, cwd := wine.ContainerProcess(wine.Process{
		Args:        p.Args,
		CommandLine: p.CommandLine,
		Env:         p.Env,
		Dir:         p.Dir,
		Status:      p.Status,
		Account:     a,
		Computer:    p.Computer,
		Exec:        p.Exec,
	})
	return oci.Process{Args: argv, Env: env, Cwd: cwd, UID: a.UID, GID: a.GID}
}

// StatusDir is where a container sees its directory of status files.
func (Engine) StatusDir() string { return wine.StatusDir }

// Owner returns the user and group that an image's files belong to.
func (Engine) Owner() (uid, gid int) { return wine.ContainerUID, wine.ContainerGID }

// Status reads the status file of a program. Its container may have put anything
// there. If the program was killed, the error is fs.ErrNotExist.
func (Engine) Status(file string) (engine.Status, error) {
	s, err := launch.ReadStatus(file)
	return engine.Status(s), err
}
