// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command powershell is powershell.exe (and, under that name, pwsh.exe) of the stand-in
// images: an interpreter of a PowerShell subset. docs/fidelity/pwsh.md lists the
// differences from Windows.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"

	"github.com/mullion-k8s/mullion/pwsh/console"
	"github.com/mullion-k8s/mullion/pwsh/oshost"
)

func main() { os.Exit(run()) }

func run() int {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	dir, err := os.Getwd()
	if err != nil {
		dir = os.TempDir()
	}
	fi, err := os.Stdin.Stat()
	terminal := err == nil && fi.Mode()&os.ModeCharDevice != 0
	return console.Main(context.Background(), interrupts, os.Args[0], os.Args[1:],
		oshost.New(os.Stdin, os.Stdout, os.Stderr), runtime.GOOS == "windows", terminal, dir)
}
