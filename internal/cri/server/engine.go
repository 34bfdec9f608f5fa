// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/wine"
	"github.com/mullion-k8s/mullion/internal/wine/launch"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Engine runs Windows programs in containers. It is package wine in production;
// tests put one in its place that runs Linux programs.
type Engine interface {
	// Layers are the overlayfs layers below every image's own, lowest first.
	Layers(ctx context.Context) ([]string, error)
	// LinuxLayers are the overlayfs layers of a container's root directory, lowest
	// first; empty if drive C is that directory.
	LinuxLayers(ctx context.Context, a wine.Account) ([]string, error)
	// Drive is where the root directory holds drive C.
	Drive() string
	// AccountLayer is the layer on top of an image's own for a container that
	// runs as the account; empty for none.
	AccountLayer(ctx context.Context, a wine.Account) (string, error)
	// Process describes a program; p.Status names the file, in the directory
	// that the container sees as StatusDir, that will say how it ended.
	Process(p wine.Process) oci.Process
	StatusDir() string
	// Owner is the user that an image's files belong to; -1 leaves them alone.
	Owner() (uid, gid int)
	// Started waits until the program of a container runs, given the PID of its
	// init and the file of its status. The error is Windows' own if it does not.
	Started(ctx context.Context, pid int, status string) error
}

// wineEngine is the real one.
type wineEngine struct {
	runtime *wine.Runtime
	build   winver.Build
}

// NewEngine returns the Engine that runs containers of a build with Wine.
func NewEngine(r *wine.Runtime, build winver.Build) Engine { return wineEngine{r, build} }

func (e wineEngine) Layers(ctx context.Context) ([]string, error) {
	return e.runtime.ContainerLayers(ctx, e.build)
}

func (e wineEngine) LinuxLayers(ctx context.Context, a wine.Account) ([]string, error) {
	return e.runtime.LinuxLayers(ctx, e.build, a)
}

func (wineEngine) Drive() string { return wine.ContainerDrive }

func (e wineEngine) AccountLayer(ctx context.Context, a wine.Account) (string, error) {
	return e.runtime.AccountLayer(ctx, a)
}

func (wineEngine) Process(p wine.Process) oci.Process {
	argv, env, cwd := wine.ContainerProcess(p)
	return oci.Process{Args: argv, Env: env, Cwd: cwd, UID: p.Account.UID, GID: p.Account.GID}
}

func (wineEngine) StatusDir() string { return wine.StatusDir }

func (wineEngine) Owner() (uid, gid int) { return wine.ContainerUID, wine.ContainerGID }

// startPoll and startWait: init finds the program and starts Wine within some
// 10 ms; one that needs longer than two seconds is taken for started.
const (
	startPoll = 2 * time.Millisecond
	startWait = 2 * time.Second
)

// Started looks for the first child of init, which is Wine's loader.
func (wineEngine) Started(ctx context.Context, pid int, status string) error {
	children := filepath.Join("/proc", strconv.Itoa(pid), "task", strconv.Itoa(pid), "children")
	for deadline := time.Now().Add(startWait); time.Now().Before(deadline); {
		if s, err := launch.ReadStatus(status); err == nil {
			if s.Error != "" {
				return errors.New(s.Error)
			}
			return nil
		}
		if data, err := os.ReadFile(children); err == nil && len(strings.TrimSpace(string(data))) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(startPoll):
		}
	}
	return nil
}
