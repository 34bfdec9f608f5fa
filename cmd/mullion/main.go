// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command mullion starts mixed Windows and Linux clusters on a Linux machine,
// and turns a Windows Server into a node of one.
package main

import (
	"context"
	"os"

	"github.com/mullion-k8s/mullion/internal/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), cli.Stdio(), os.Args, commands()))
}
