// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/agent/csidriver"
	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/nodeapi"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// Times of stopping: together well below the 10 s that a host is given.
const (
	stopServe = 4 * time.Second
	stopWine  = 3 * time.Second
	stopAgent = 1 * time.Second // Wine ends a program at once on SIGTERM
)

// Init is process 1 of a host.
func Init(ctx context.Context, args []string) error { return host.Init(ctx, args, nil, runInit) }

func runInit(ctx context.Context, b boot, reports *host.Reporter) error {
	machine := readMachineFiles()
	if err := host.TakeDisk(b.Config.Dir); err != nil {
		return err
	}
	if err := directories(ctx, b.Config, b.Prefix); err != nil {
		return err
	}
	if err := host.Enter(b.Config.Config, describeRoot(b)); err != nil {
		return err
	}
	if err := errors.Join(shareViews(), host.SplitCgroup(b.Cgroups, podsCgroup),
		host.ShowSize(ctx, b.Size, b.Cgroups), etc(b.Config), machine.write(), installFiles(b),
		shareState()); err != nil {
		return err
	}
	reap := host.NewReaper()
	components, err := describeProcesses(b, supervise.NewSpawner(), reap, reports)
	if err != nil {
		return err
	}
	connect := func() (*nodeapi.Client, error) {
		return nodeapi.New(b.Config.Server, b.Config.Name, b.CA, onDisk(agent.KubeletKeyPair))
	}
	// Not the prefix: an overlay has no FITRIM.
	return host.Supervise(ctx, components, reap, reports, connect, nodeDir+"/cri")
}

// describeProcesses lists the components of the host.
func describeProcesses(b boot, spawner *supervise.Spawner, reap *host.Reaper,
	reports *host.Reporter) ([]supervise.Component, error) {
	logs, err := host.OpenLogs(nodeDir, "serve", "wine", "agent")
	if err != nil {
		return nil, err
	}
	// They are in the files of the agent by now; serve needs neither.
	b.Token, b.CA = "", nil
	doc, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("marshal boot document: %w", err)
	}
	if err := os.WriteFile(bootFile, doc, 0o600); err != nil {
		return nil, fmt.Errorf("write boot document: %w", err)
	}
	windows := wineHost(b)
	loaders := filepath.Join(windows.Runtime, "usr/lib/wine")
	return []supervise.Component{
		{
			// The container runtime runs CNI plugins, which are Windows programs.
			Name: "serve", Needs: []string{"wine"},
			Run: reap.Watch(spawner, supervise.Command{
				Argv: []string{filepath.Join(binDir, "mullion-winhost"), "serve", "--boot", bootFile},
				Env:  append([]string{"PATH=/usr/sbin:/usr/bin", "HOME=/root", "LC_ALL=C.UTF-8"}, b.Environ...),
				Dir:  "/", Stop: stopServe, Log: logs["serve"], Out: reports.Output(),
			}),
			Changed: &reports.Changed,
			Ready:   supervise.Answers("tcp", criAddress, ""), // HNS listens before the CRI
			Alive:   supervise.Answers("tcp", criAddress, ""),
		},
		{
			// In the foreground and persistent: its death must be noticed, and no
			// program's end may end it.
			Name: "wine",
			Run: withoutClients(reap.Watch(spawner, supervise.Command{
				Argv: windows.Confined([]string{wineserver(windows), "-f", "-p"}),
				Env:  windows.Env(), Dir: "/", Stop: stopWine, Log: logs["wine"],
			}), loaders),
			Ready: wineReady,
			Alive: newWineHealth(loaders).check,
		},
		{
			Name: "agent", Needs: []string{"serve", "wine"},
			Run: afterWine(reap.Watch(spawner, supervise.Command{
				Argv: windows.Confined(windows.Argv(agent.ProgramDir+`\mullion.exe`, "agent", "run", "--print-status")),
				Env:  append(windows.Env(), "PATH=/usr/bin"),
				Dir:  onDisk(agent.ProgramDir), Stop: stopAgent, Log: logs["agent"], Out: reports.Output(),
			})),
			Changed: &reports.Changed,
			Ready: func(context.Context) error {
				_, err := os.Stat(onDisk(agent.StatusFile))
				return err
			},
			Alive: func(context.Context) error { return agent.Alive(hostDisk(), time.Now()) },
		},
		{Name: "volumes", Run: serveVolumes},
	}, nil
}

// serveVolumes serves the disks of volumes to the agent.
func serveVolumes(ctx context.Context) error {
	l, err := net.Listen("tcp", volumesAddress)
	if err != nil {
		return fmt.Errorf("serve volumes: %w", err)
	}
	disks := host.NewVolumes(imagesDir, onDisk(filepath.Join(agent.StateDir, storage.VolumesDir)))
	s := &http.Server{Handler: csidriver.DisksHandler(disks), ReadTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve volumes: %w", err)
	}
	return nil
}
