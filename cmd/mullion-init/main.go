// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command mullion-init is PID 1 of an emulated Windows container, and the
// parent of what exec starts in one. The CRI server passes its arguments
// (internal/wine, ContainerProcess); nobody types them.
package main

import (
	"flag"
	"os"

	"github.com/mullion-k8s/mullion/internal/wine/launch"
)

func main() {
	c := launch.Config{Root: "/", Loader: "/usr/lib/wine/wine64", StatusDir: "/run/mullion"}
	flag.BoolVar(&c.Exec, "exec", false, "join a running container")
	flag.StringVar(&c.Dir, "dir", "", "working directory, a Windows path")
	flag.StringVar(&c.StatusName, "status", "", "name of the status file")
	flag.StringVar(&c.CommandLine, "command-line", "", "Windows command line to use as it is")
	flag.Parse()
	c.Args = flag.Args()
	os.Exit(launch.Run(c, os.Environ(), os.Stderr))
}
