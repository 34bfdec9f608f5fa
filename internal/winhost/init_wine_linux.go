// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

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
	err := errors.New("wineserver has no socket yet")
	for _, pattern := range wineSockets() {
		sockets, globErr := filepath.Glob(pattern)
		if globErr != nil {
			return globErr
		}
		// One that a killed wineserver left refuses connections.
		for _, s := range sockets {
			var conn net.Conn
			if conn, err = (&net.Dialer{}).DialContext(ctx, "unix", s); err == nil {
				return conn.Close()
			}
		}
	}
	return err
}

// readyPoll is how often after looks. A restarted wineserver is there within
// milliseconds.
const readyPoll = 20 * time.Millisecond

// after delays each call of run until ready succeeds. A Windows program that is
// started without a wineserver would start its own, which init does not supervise.
func after(ready func(context.Context) error, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for ready(ctx) != nil {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(readyPoll):
			}
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
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return // there is no /proc: nothing can be found
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == 1 {
			continue
		}
		// Any error means that the process has ended.
		exe, _ := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		ns, _ := os.Readlink(filepath.Join("/proc", e.Name(), "ns", "pid"))
		if ns == own && strings.HasPrefix(exe, dir+"/") {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}
