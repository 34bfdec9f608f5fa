// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command mullion-init is PID 1 of an emulated Windows container, and the parent
// of every process that exec starts in one. It also drops privileges that the
// programs of an emulated host must not have, and it fills Wine's prefix. The CRI server passes its
// arguments (internal/wine, ContainerProcess); users do not run it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/mullion-k8s/mullion/internal/wine/launch"
)

func main() {
	c := launch.Config{
		Root:      "/.wine/drive_c", // wine.ContainerDrive
		Loader:    "/usr/lib/wine/wine64",
		StatusDir: "/run/mullion",
	}
	flag.StringVar(&c.Root, "root", c.Root, "directory that is drive C:")
	flag.StringVar(&c.Loader, "loader", c.Loader, "Wine's loader")
	flag.BoolVar(&c.Host, "host", false, "the program runs on the host itself")
	confine := flag.Bool("confine", false, "execute the arguments as a program of an emulated host")
	fill := flag.Bool("fill-prefix", false, "fill Wine's prefix: the arguments are the runtime and the prefix")
	check := flag.Bool("check-wine", false, "check Wine: the arguments are the runtime, the prefix and a group")
	flag.BoolVar(&c.Exec, "exec", false, "join a running container")
	flag.StringVar(&c.Dir, "dir", "", "working directory, a Windows path")
	flag.StringVar(&c.StatusName, "status", "", "name of the status file")
	flag.StringVar(&c.CommandLine, "command-line", "", "Windows command line to use as it is")
	flag.Parse()
	c.Args = flag.Args()
	if *confine {
		err := launch.Confine(c.Args, os.Environ())
		fmt.Fprintln(os.Stderr, "mullion-init:", err)
		os.Exit(126) // the exit code of shells for a file that cannot be executed
	}
	if *fill || *check {
		run := launch.FillPrefix
		if *check {
			run = launch.CheckWine
		}
		if err := run(c.Args); err != nil {
			fmt.Fprintln(os.Stderr, "mullion-init:", err)
			if _, unfit := errors.AsType[launch.UnfitError](err); unfit {
				os.Exit(launch.ExitUnfit)
			}
			os.Exit(1)
		}
		return
	}
	os.Exit(launch.Run(c, os.Environ(), os.Stderr))
}
