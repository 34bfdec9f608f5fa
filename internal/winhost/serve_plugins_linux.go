// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/wine"
)

// pluginRunner runs CNI plugins in the host's Wine prefix.
type pluginRunner struct {
	host  wine.Host
	dir   string        // working directory: drive C of the host
	grace time.Duration // see orphanGrace
}

// pluginGrace is how long the pipes of a plugin are read after it has ended: a
// program that it started may hold them.
const pluginGrace = time.Second

// orphanGrace is how long the programs that a killed plugin has started may go on.
// On Windows, too, only the plugin is killed: an IPAM plugin writes its files to the
// end. But a plugin that is killed while it starts a program leaves a process whose
// main thread was never resumed (CreateProcess makes it suspended), and stays. The rest
// must not be killed: host-local.exe makes a file and then writes whose it is, and no
// later call finds one without an owner. On a busy machine a chain of three plugins
// needs seconds for that.
const orphanGrace = 20 * time.Second

// RunPlugin implements cni.Runner.
func (r pluginRunner) RunPlugin(ctx context.Context, exe string, env []string,
	stdin []byte) (stdout, stderr []byte, err error) {
	argv := r.host.Confined(r.host.Argv(exe))
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(r.host.Env(), env...)
	cmd.Dir = r.dir
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.WaitDelay = pluginGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		endOrphans(cmd.Process.Pid, r.grace)
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		// The plugin itself has ended well. The first Windows program after the
		// wineserver's start is also the parent of Windows' services.
		err = nil
	}
	return out.Bytes(), errs.Bytes(), err
}

// endOrphans waits until a process group is empty, and kills the remainder in the
// end. Wine's services are in their own sessions.
func endOrphans(group int, grace time.Duration) {
	for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(grace / 500) {
		if unix.Kill(-group, 0) != nil {
			return
		}
	}
	_ = unix.Kill(-group, unix.SIGKILL) // ESRCH: the last one has just ended
}
