// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build amd64

// Command mullion-linuxhost runs one Linux worker: outside of it, and as its process 1.
// The cluster's supervisor starts it.
package main

import (
	"context"
	"os"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cli/linuxhostcmd"
)

func main() {
	s := cli.Stdio()
	os.Exit(cli.RunProgram(context.Background(), s, os.Args, linuxhostcmd.New(s)))
}
