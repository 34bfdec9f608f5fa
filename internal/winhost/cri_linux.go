// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/server"
	"github.com/mullion-k8s/mullion/internal/hns/emul"
	"github.com/mullion-k8s/mullion/internal/imageload"
	"github.com/mullion-k8s/mullion/internal/standin"
	"github.com/mullion-k8s/mullion/internal/version"
	"github.com/mullion-k8s/mullion/internal/wine"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// imageSocket is where `mullion load` reaches the host; the cluster's layout
// names the same file from outside.
var imageSocket = filepath.Join(nodeDir, "images.sock")

// certsDir holds CA certificates of registries: the machine's, see describeRoot.
const certsDir = machineDir + "/certs.d"

// handlers are RuntimeClass handlers that mean process isolation beside
// containerd's own name for it: the Windows guide prints a RuntimeClass with a
// placeholder, which everybody has copied once.
func handlers() []string { return []string{"example-container-runtime-handler"} }

// programsOf are the executables that stand-in images consist of.
func programsOf(bin string) standin.Programs {
	return standin.Programs{Winbox: filepath.Join(bin, "windows", "winbox.exe"), PowerShell: filepath.Join(bin, "windows", "powershell.exe")}
}

// serveCRI runs the container runtime.
func serveCRI(ctx context.Context, b boot, build winver.Build, service *emul.Service, log *slog.Logger) error {
	// All of it was made by the parent; the cache is read-only here.
	rt, err := wine.OpenRuntime(ctx, cacheDir, filepath.Join(binDir, "native"), log)
	if err != nil {
		return err
	}
	standIns, err := standin.Prepare(ctx, cacheDir, programsOf(binDir), log)
	if err != nil {
		return err
	}
	// Images of other builds can be pulled, though not run; their paths are spelled
	// alike, and only this host's own templates are in its cache for certain.
	base := func(ctx context.Context, _ winver.Build) ([]string, error) { return rt.ContainerLayers(ctx, build) }
	dialer := &MachineDialer{netns: machineNetns, dir: machineDir}
	images, err := image.Open(filepath.Join(nodeDir, "cri", "images"), image.Config{
		HostBuild: build, Base: base, StandIns: standIns, ExternalDir: cacheDir,
		UID: wine.ContainerUID, GID: wine.ContainerGID, Dial: dialer.DialContext, CertsDir: certsDir, Log: log,
	})
	if err != nil {
		return err
	}
	defer func() { _ = images.Close() }() // everything in it is on the disk already
	if _, err := standin.Install(ctx, images, standIns, build); err != nil {
		return err
	}
	s, err := server.New(ctx, server.Config{
		StateDir: filepath.Join(nodeDir, "cri", "state"), RunDir: "/run/cri",
		Images: images, Namespaces: service, Plugins: hostRunner{wineHost(b)}, Engine: server.NewEngine(rt, build),
		Drive: onDisk(`C:\`), Cgroup: podsCgroup, Build: build, Handlers: handlers(), Version: version.String(), Hostname: b.Config.Name, Log: log,
		HostProcesses: &server.HostProcesses{Wine: wineHost(b), Views: viewsDir, Sockets: socketsDir, Shared: []string{"/usr", "/etc"}},
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", criAddress)
	if err != nil {
		return err
	}
	loading, err := listenUnix(imageSocket)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Serve(ctx, l) })
	g.Go(func() error {
		return imageload.Serve(ctx, loading, func(ctx context.Context, archive io.Reader) ([]imageload.Image, error) {
			return load(ctx, images, archive)
		})
	})
	return g.Wait()
}

// load is what `mullion load` does on a host.
func load(ctx context.Context, images *image.Store, archive io.Reader) ([]imageload.Image, error) {
	loaded, err := images.Load(ctx, archive)
	if err != nil {
		return nil, err
	}
	var out []imageload.Image
	for _, img := range loaded {
		names := img.RepoTags
		if len(names) == 0 {
			names = []string{img.ID}
		}
		out = append(out, imageload.Image{Names: names, OS: img.OS, Arch: img.Arch, OSVersion: img.OSVersion})
	}
	return out, nil
}

// listenUnix makes a socket for root in place of one that an earlier life left.
func listenUnix(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", path, err), l.Close())
	}
	return l, nil
}

// hostRunner runs CNI plugins in the host's Wine prefix.
type hostRunner struct {
	host wine.Host
}

// pluginGrace is how long the pipes of a plugin that has ended are read on: a
// program that it started may hold them.
const pluginGrace = time.Second

// RunPlugin implements cni.Runner.
func (r hostRunner) RunPlugin(ctx context.Context, exe string, env []string, stdin []byte) (stdout, stderr []byte, err error) {
	argv := r.host.Confined(r.host.Argv(exe))
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(r.host.Env(), env...)
	cmd.Dir = onDisk(`C:\`)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.WaitDelay = pluginGrace
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		// The plugin itself has ended well. The first Windows program after the
		// wineserver's start is also the parent of Windows' services.
		err = nil
	}
	return out.Bytes(), errs.Bytes(), err
}
