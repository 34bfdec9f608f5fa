// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/agent/logfile"
	"github.com/mullion-k8s/mullion/internal/host"
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
	root := host.RootDir(b.Config.Dir)
	if err := host.BuildRoot(describeRoot(b), host.Links(), root); err != nil {
		return err
	}
	if err := host.Pivot(root); err != nil {
		return err
	}
	if err := errors.Join(shareViews(), host.SplitCgroup(b.Cgroups, podsCgroup),
		host.ShowSize(ctx, b.Size, b.Cgroups), etc(b.Config), machine.write(), installFiles(b)); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(b.Config.Name())); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	reap := host.NewReaper()
	components, err := describeProcesses(b, supervise.NewSpawner(), reap)
	if err != nil {
		return err
	}
	return host.Supervise(ctx, components, reap, reports, onDisk(agent.StatusFile))
}

// describeProcesses says what runs in the host.
func describeProcesses(b boot, spawner *supervise.Spawner, reap *host.Reaper) ([]supervise.Component, error) {
	logs := map[string]io.Writer{}
	for _, name := range []string{"serve", "wine", "agent"} {
		l, err := logfile.Open(filepath.Join(nodeDir, "logs", name+".log"), logfile.DefaultBytes, logfile.DefaultKeep)
		if err != nil {
			return nil, err
		}
		logs[name] = l
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
	return []supervise.Component{
		{
			// The container runtime runs CNI plugins, which are Windows programs.
			Name: "serve", Needs: []string{"wine"},
			Run: reap.Watch(spawner, supervise.Command{
				Argv: []string{filepath.Join(binDir, "mullion-winhost"), "serve", "--boot", bootFile},
				Env:  append([]string{"PATH=/usr/sbin:/usr/bin", "HOME=/root", "LC_ALL=C.UTF-8"}, b.Environ...),
				Dir:  "/", Stop: stopServe, Log: logs["serve"],
			}),
			Ready: func(ctx context.Context) error { return errors.Join(dial(ctx, hnsAddress), dial(ctx, criAddress)) },
		},
		{
			// In the foreground and persistent: its death must be noticed, and no
			// program's end may end it.
			Name: "wine",
			Run: withoutClients(reap.Watch(spawner, supervise.Command{
				Argv: windows.Confined([]string{wineserver(windows), "-f", "-p"}),
				Env:  windows.Env(), Dir: "/", Stop: stopWine, Log: logs["wine"],
			}), filepath.Join(windows.Runtime, "usr/lib/wine")),
			Ready: wineReady,
		},
		{
			Name: "agent", Needs: []string{"serve", "wine"},
			Run: after(wineReady, reap.Watch(spawner, supervise.Command{
				Argv: windows.Confined(windows.Argv(agent.ProgramDir+`\mullion.exe`, "agent", "run")),
				Env:  append(windows.Env(), "PATH=/usr/bin"),
				Dir:  onDisk(agent.ProgramDir), Stop: stopAgent, Log: logs["agent"],
			})),
			Ready: func(context.Context) error {
				_, err := os.Stat(onDisk(agent.StatusFile))
				return err
			},
		},
	}, nil
}

func dial(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
