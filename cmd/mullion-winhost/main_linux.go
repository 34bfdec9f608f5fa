// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build amd64

// Command mullion-winhost runs one emulated Windows host: outside of it, as its process
// 1, and as its HNS and CRI servers. The cluster's supervisor starts it.
package main

import (
	"context"
	"os"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cli/winhostcmd"
)

func main() {
	s := cli.Stdio()
	os.Exit(cli.RunProgram(context.Background(), s, os.Args, winhostcmd.New(s)))
}
