// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/agent/logfile"
	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// Times of stopping: together well below the 10 s that a host is given.
const (
	stopServe = 4 * time.Second
	stopWine  = 3 * time.Second
	stopAgent = 1 * time.Second // Wine ends a program at once on SIGTERM
)

// report is one line from init to the parent.
type report struct {
	Components []supervise.Status `json:"components"`
	Agent      json.RawMessage    `json:"agent,omitempty"`
	Fatal      string             `json:"fatal,omitempty"`
}

// Init is process 1 of a host. It begins twice: the parent moves the process
// into its cgroup and says go; then a cgroup namespace is made, whose root is
// that cgroup, and because a namespace of that kind belongs to a thread, only
// executing the program again gives it to all of them.
func Init(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("begin host: %w", enterCgroup())
	}
	reports := os.NewFile(fdReports, "reports")
	err := runInit(ctx, reports)
	if err != nil {
		// The parent is told, because our own standard error is only a log.
		_ = json.NewEncoder(reports).Encode(report{Fatal: err.Error()})
	}
	return err
}

// ready is the argument of Init's second life.
const ready = "ready"

// enterCgroup waits for the parent and executes the program again.
func enterCgroup() error {
	if _, err := unix.Read(fdBoot, make([]byte, 1)); err != nil {
		return fmt.Errorf("wait for the parent: %w", err)
	}
	runtime.LockOSThread()
	// The parent-death signal, too, belongs to a thread, and this need not be the
	// one that has it. If the parent is dead by now, its end of the pipe is closed
	// and there will be no boot document.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("ask to die with the parent: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make cgroup namespace: %w", err)
	}
	return unix.Exec("/proc/self/exe", append(os.Args, ready), os.Environ())
}

// splitCgroup makes room for containers in the host's cgroup, which its processes
// see as the root.
func splitCgroup(hs cgroup.Hierarchies) error {
	return hs.Group("/").Split("init", podsCgroup, os.Getpid())
}

func runInit(ctx context.Context, reports io.Writer) error {
	b, err := readBoot(os.NewFile(fdBoot, "boot"))
	if err != nil {
		return err
	}
	// Programs of the host inherit none of these.
	for fd := fdBoot; fd <= fdFabric; fd++ {
		unix.CloseOnExec(fd)
	}
	machine := readMachineFiles()
	root := rootDir(b.Config)
	if err := buildRoot(b, root); err != nil {
		return err
	}
	if err := pivot(root); err != nil {
		return err
	}
	if err := errors.Join(shareViews(), splitCgroup(b.Cgroups), etc(b.Config), machine.write(),
		installFiles(b)); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(b.Config.Name())); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	return superviseProcesses(ctx, b, reports, log)
}

// superviseProcesses runs the host's processes until it is told to stop.
func superviseProcesses(ctx context.Context, b boot, reports io.Writer, log *slog.Logger) error {
	out := &reporter{to: reports}
	reap := newReaper()
	components, err := describeProcesses(b, supervise.NewSpawner(), reap)
	if err != nil {
		return err
	}
	s, err := supervise.New(supervise.Config{Components: components, OnChange: out.components, Log: log})
	if err != nil {
		return err
	}
	reaped := make(chan struct{})
	rctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() { defer close(reaped); reap.run(rctx) }()
	go out.follow(rctx, onDisk(agent.StatusFile))
	err = s.Run(ctx)
	stop()
	<-reaped
	return err
}

// describeProcesses says what runs in the host.
func describeProcesses(b boot, spawner *supervise.Spawner, reap *reaper) ([]supervise.Component, error) {
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
	const file = "/run/boot.json"
	if err := os.WriteFile(file, doc, 0o600); err != nil {
		return nil, fmt.Errorf("write boot document: %w", err)
	}
	host := wineHost(b)
	return []supervise.Component{
		{
			// The container runtime runs CNI plugins, which are Windows programs.
			Name: "serve", Needs: []string{"wine"},
			Run: reap.watch(spawner, supervise.Command{
				Argv: []string{filepath.Join(binDir, "mullion-winhost"), "serve", "--boot", file},
				Env:  append([]string{"PATH=/usr/sbin:/usr/bin", "HOME=/root", "LC_ALL=C.UTF-8"}, b.Environ...),
				Dir:  "/", Stop: stopServe, Log: logs["serve"],
			}),
			Ready: func(ctx context.Context) error { return errors.Join(dial(ctx, hnsAddress), dial(ctx, criAddress)) },
		},
		{
			// In the foreground and persistent: its death must be noticed, and no
			// program's end may end it.
			Name: "wine",
			Run: withoutClients(reap.watch(spawner, supervise.Command{
				Argv: host.Confined([]string{wineserver(host), "-f", "-p"}),
				Env:  host.Env(), Dir: "/", Stop: stopWine, Log: logs["wine"],
			}), filepath.Join(host.Runtime, "usr/lib/wine")),
			Ready: wineReady,
		},
		{
			Name: "agent", Needs: []string{"serve", "wine"},
			Run: after(wineReady, reap.watch(spawner, supervise.Command{
				Argv: host.Confined(host.Argv(agent.ProgramDir+`\mullion.exe`, "agent", "run")),
				Env:  append(host.Env(), "PATH=/usr/bin"),
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
