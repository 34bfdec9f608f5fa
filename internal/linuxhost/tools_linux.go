// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// tools are the programs that process 1 of the host runs and waits for.
type tools struct {
	// output runs a command, as exec.Cmd's CombinedOutput does. Beside a Reaper it must be the Reaper's.
	output func(*exec.Cmd) ([]byte, error)
}

// nft carries out a transaction in the host's network namespace.
func (t tools) nft(ctx context.Context, transaction string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(transaction)
	if out, err := t.output(cmd); err != nil {
		return fmt.Errorf("nft: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// ctr runs containerd's own client in the kubelet's namespace of images, and returns its
// output.
func (t tools) ctr(ctx context.Context, args ...string) ([]byte, error) {
	argv := append([]string{"--address", containerdSocket, "--namespace", "k8s.io"}, args...)
	cmd := exec.CommandContext(ctx, programsDir+"/ctr", argv...)
	cmd.Env = environment()
	out, err := t.output(cmd)
	if err != nil {
		return nil, fmt.Errorf("ctr %s: %w: %s", args[0], err, bytes.TrimSpace(out))
	}
	return out, nil
}
