// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/mullion-k8s/mullion/internal/controlplane"
	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
)

// The exit codes; see docs/reference/exit-codes.md.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitEnvironment = 3
)

// serve implements `mullion-kube server`.
func serve(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("mullion-kube server", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("config", "", "the control plane's configuration (JSON)")
	dryRun := flags.Bool("dry-run", false, "print the plan (directories, certificates, command lines, order) and "+
		"change nothing")
	level := slog.LevelInfo
	flags.TextVar(&level, "log-level", level, "debug, info, warn or error")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return exitOK
	} else if err != nil {
		return exitUsage
	}
	if flags.NArg() > 0 || *file == "" {
		fmt.Fprintln(stderr, "mullion: error: want --config FILE and nothing else")
		return exitUsage
	}
	c, err := config.Load(*file)
	if err != nil {
		fmt.Fprintf(stderr, "mullion: error: %v\n", err)
		return exitUsage
	}
	if *dryRun {
		return printPlan(c, stdout, stderr)
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	if err := controlplane.Run(ctx, c, hup, log); err != nil {
		fmt.Fprintf(stderr, "mullion: error: %v\n", err)
		if _, unusable := errors.AsType[*config.UnusableError](err); unusable {
			return config.ExitUnusable
		}
		if errors.Is(err, controlplane.ErrLocked) || errors.Is(err, syscall.EADDRINUSE) ||
			errors.Is(err, syscall.EADDRNOTAVAIL) {
			return exitEnvironment
		}
		return exitFailure
	}
	return exitOK
}

func printPlan(c config.Config, stdout, stderr io.Writer) int {
	resolv, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(stderr, "mullion: error: read the machine's DNS servers: %v\n", err)
		return exitFailure
	}
	p, err := plan.New(c, plan.Machine{Resolvers: plan.ParseResolvConf(string(resolv))})
	if err != nil {
		fmt.Fprintf(stderr, "mullion: error: %v\n", err)
		return exitFailure
	}
	fmt.Fprint(stdout, p)
	return exitOK
}
