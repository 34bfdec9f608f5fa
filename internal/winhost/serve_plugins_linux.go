// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"time"

	"github.com/mullion-k8s/mullion/internal/wine"
)

// pluginRunner runs CNI plugins in the host's Wine prefix.
type pluginRunner struct {
	host wine.Host
}

// pluginGrace is how long the pipes of a plugin are read after it has ended: a
// program that it started may hold them.
const pluginGrace = time.Second

// RunPlugin implements cni.Runner.
func (r pluginRunner) RunPlugin(ctx context.Context, exe string, env []string,
	stdin []byte) (stdout, stderr []byte, err error) {
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
