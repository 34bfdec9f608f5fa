// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/mullion-k8s/mullion/internal/controlplane"
	"github.com/mullion-k8s/mullion/internal/controlplane/config"
)

// snapshot implements `mullion-kube snapshot save` and `restore`, which
// `mullion backup` and `mullion restore` run.
func snapshot(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || args[0] != "save" && args[0] != "restore" {
		fmt.Fprintln(stderr, "mullion: error: want snapshot save or snapshot restore")
		return exitUsage
	}
	flags := flag.NewFlagSet("mullion-kube snapshot "+args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	document := flags.String("config", "", "the control plane's configuration (JSON)")
	file := flags.String("file", "", "the snapshot")
	if err := flags.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		return exitOK
	} else if err != nil {
		return exitUsage
	}
	if flags.NArg() > 0 || *document == "" || *file == "" {
		fmt.Fprintln(stderr, "mullion: error: want --config FILE, --file FILE and nothing else")
		return exitUsage
	}
	c, err := config.Load(*document)
	if err != nil {
		fmt.Fprintf(stderr, "mullion: error: %v\n", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if args[0] == "restore" {
		err = controlplane.RestoreSnapshot(c, *file, log)
	} else {
		var made config.Snapshot
		if made, err = controlplane.SaveSnapshot(ctx, c, *file, log); err == nil {
			err = json.NewEncoder(stdout).Encode(made)
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "mullion: error: %v\n", err)
		return exitFailure
	}
	return exitOK
}

// examine implements `mullion-kube examine DIRECTORY`, which the server runs after a
// failed start to check whether etcd's data are damaged.
func examine(args []string, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "mullion: error: want the data directory of etcd")
		return exitUsage
	}
	if err := controlplane.Examine(args[0], slog.New(slog.DiscardHandler)); err != nil {
		fmt.Fprintf(stderr, "mullion: error: %v\n", err)
		return exitFailure
	}
	return exitOK
}
