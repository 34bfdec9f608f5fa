// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/mullion-k8s/mullion/internal/cri/hostprocess"
	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/server"
	"github.com/mullion-k8s/mullion/internal/cri/wineengine"
	"github.com/mullion-k8s/mullion/internal/hns/emul"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/host/imageload"
	"github.com/mullion-k8s/mullion/internal/standin"
	"github.com/mullion-k8s/mullion/internal/version"
	"github.com/mullion-k8s/mullion/internal/wine"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// handlers are RuntimeClass handlers that mean process isolation beside
// containerd's own name for it: the Windows guide prints a RuntimeClass with a
// placeholder, which many users have copied.
func handlers() []string { return []string{"example-container-runtime-handler"} }

// serveCRI runs the container runtime.
func serveCRI(ctx context.Context, b boot, build winver.Build, service *emul.Service, out io.Writer,
	log *slog.Logger) error {
	// The parent has made all of it, of programs that may have been replaced since: the
	// host keeps the programs of its boot until it is rebooted. The cache is read-only
	// here.
	rt, err := wine.NamedRuntime(cacheDir, b.Runtime, log)
	if err != nil {
		return err
	}
	standIns, err := standin.Open(cacheDir, b.StandIns)
	if err != nil {
		return err
	}
	// Images of other builds can be pulled, though not run; their paths are spelled
	// alike, and only this host's own templates are in its cache for certain.
	base := func(ctx context.Context, _ winver.Build) ([]string, error) { return rt.ContainerLayers(ctx, build) }
	dialer := &machineDialer{netns: machineNetns, dir: machineDir}
	images, err := image.Open(filepath.Join(nodeDir, "cri", "images"), image.Config{
		HostBuild:   build,
		Base:        base,
		StandIns:    standIns,
		ExternalDir: cacheDir,
		UID:         wine.ContainerUID,
		GID:         wine.ContainerGID,
		Dial:        dialer.dialContext,
		CertsDir:    certsDir,
		Log:         log,
	})
	if err != nil {
		return err
	}
	defer func() { _ = images.Close() }() // everything in it is on the disk already
	if _, err := standin.Install(ctx, images, standIns, build); err != nil {
		return err
	}
	s, err := server.New(ctx, server.Config{
		StateDir:   filepath.Join(nodeDir, "cri", "state"),
		RunDir:     "/run/cri",
		Images:     images,
		Namespaces: service,
		Plugins:    pluginRunner{wineHost(b), onDisk(`C:\`), orphanGrace},
		Engine:     wineengine.New(rt, build),
		Drive:      onDisk(`C:\`),
		Cgroup:     podsCgroup,
		Ceilings:   b.Ceilings,
		CPUs:       len(b.Size.CPUs),
		SizeFiles:  host.SizeFiles(),
		FirstUID:   b.Config.FirstUID,
		Build:      build,
		Handlers:   handlers(),
		Version:    version.String(),
		Hostname:   b.Config.Name,
		HostProcesses: &hostprocess.Host{
			Wine:     wineHost(b),
			Drive:    onDisk(`C:\`),
			Computer: b.Config.Name,
			Views:    viewsDir,
			Sockets:  socketsDir,
			Shared:   []string{"/usr", "/etc"},
		},
		Log: log,
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", criAddress)
	if err != nil {
		return err
	}
	loading, err := imageload.Listen(imageSocket)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	_, _ = io.WriteString(out, "ready\n") // without the line, the supervisor in init looks some seconds later
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Serve(ctx, l) })
	g.Go(func() error { return serveImages(ctx, loading, images) })
	return g.Wait()
}
