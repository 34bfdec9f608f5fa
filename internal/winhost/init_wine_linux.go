// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/supervise"
	"github.com/mullion-k8s/mullion/internal/wine"
)

func wineserver(h wine.Host) string { return filepath.Join(h.Runtime, "usr/lib/wine/wineserver") }

// wineSockets returns the places where a wineserver may have its socket: in a directory
// named after user and prefix (Wine, server/request.c, create_server_dir), which
// Debian and Ubuntu put below /run/user, or else into a directory with a random
// name that the file "wineserver" of the prefix remembers.
func wineSockets() []string {
	return []string{"/tmp/.wine-*/server-*/socket", "/tmp/wine-*/server-*/socket", "/run/user/*/wine/server-*/socket"}
}

// wineReady connects to the wineserver as its clients do.
func wineReady(ctx context.Context) error {
	return onWineSocket(func(socket string) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// onWineSocket calls try with each socket that may be wineserver's until it succeeds.
func onWineSocket(try func(socket string) error) error {
	err := errors.New("wineserver has no socket yet")
	for _, pattern := range wineSockets() {
		sockets, globErr := filepath.Glob(pattern)
		if globErr != nil {
			return globErr
		}
		// One that a killed wineserver left refuses connections.
		for _, s := range sockets {
			if err = try(s); err == nil {
				return nil
			}
		}
	}
	return err
}

// afterWine delays each call of run until the wineserver is there, which cannot notify us. A restarted one takes
// milliseconds. A Windows program that is started without it would start its own, which init does not supervise.
func afterWine(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := supervise.Await(ctx, nil, 20*time.Millisecond, func() error { return wineReady(ctx) })
		if err != nil {
			return err
		}
		return run(ctx)
	}
}

// withoutClients runs the wineserver and, when it has exited, kills the host's
// Windows programs: without a wineserver they would hang forever at their next
// call. Containers have their own wineservers and are not affected.
func withoutClients(run func(context.Context) error, loaderDir string) func(context.Context) error {
	return func(ctx context.Context) error {
		killClients(loaderDir) // of a wineserver that init did not supervise
		err := run(ctx)
		killClients(loaderDir)
		return err
	}
}

// killClients kills every process of this PID namespace that runs a program of
// the directory.
func killClients(dir string) {
	for _, pid := range clients(dir) {
		_ = unix.Kill(pid, unix.SIGKILL) // an error means that it has ended
	}
}

// clients lists the processes of this PID namespace that run a program of the directory.
func clients(dir string) []int {
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil // there is no /proc: no process can be found
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == 1 {
			continue
		}
		// Any error means that the process has ended.
		exe, _ := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		ns, _ := os.Readlink(filepath.Join("/proc", e.Name(), "ns", "pid"))
		if ns == own && strings.HasPrefix(exe, dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stoppedLimit is how long a process may be stopped before its Wine counts as not answering. The agent has restarted
// kubelet.exe and kube-proxy.exe by the time at which all of Wine is restarted because of them.
const stoppedLimit = 30 * time.Second

// wineHealth checks the wineserver and its clients.
type wineHealth struct {
	clients func() []int
	state   func(pid int) byte // as in /proc/PID/stat
	now     func() time.Time
	stopped map[int]time.Time // since when
}

func newWineHealth(loaders string) *wineHealth {
	return &wineHealth{clients: func() []int { return clients(loaders) }, state: host.ProcessState, now: time.Now}
}

// check returns nil if the wineserver greets and no Windows program is stopped (state T) for long. services.exe and
// flanneld.exe, for example, have no endpoint for a check. It is not called concurrently.
func (w *wineHealth) check(ctx context.Context) error {
	stopped := map[int]time.Time{}
	for _, pid := range w.clients() {
		if w.state(pid) != 'T' {
			continue
		}
		since, ok := w.stopped[pid]
		if !ok {
			since = w.now()
		}
		stopped[pid] = since
	}
	w.stopped = stopped
	for pid, since := range stopped {
		if w.now().Sub(since) >= stoppedLimit {
			return fmt.Errorf("process %d of the host is stopped", pid)
		}
	}
	return onWineSocket(func(socket string) error { return supervise.Answers("unix", socket, "")(ctx) })
}
