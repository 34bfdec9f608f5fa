// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command mullion starts mixed Windows and Linux clusters on a Linux machine,
// and turns a Windows Server into a node of one.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
)

func main() {
	cobra.EnableCommandSorting = false // the help has the order of the table: up first
	os.Exit(cli.Run(context.Background(), cli.Stdio(), os.Args, commands()))
}
