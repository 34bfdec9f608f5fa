// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package hostcmd is the common part of the command lines of mullion-winhost and mullion-linuxhost.
package hostcmd

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/host"
)

// Kind is an operating system of hosts, with the configuration C.
type Kind[C any] struct {
	Load func(file string) (C, error)
	Run  func(context.Context, C, *slog.Logger) error
	Init func(ctx context.Context, args []string) error
	Exec func(c C, argv []string) error
}

// New returns the command of a program that runs hosts, with the hidden commands that all such programs have.
func New[C any](s cli.Streams, name, short string, k Kind[C]) *cobra.Command {
	cmd := fromConfig(k.Load, func(ctx context.Context, c C, _ []string) error {
		err := k.Run(ctx, c, Logger(s))
		if errors.Is(err, host.ErrRunning) {
			return cli.Environmentf("see 'mullion status'", "%w", err)
		}
		return err
	})
	cmd.Use, cmd.Short, cmd.Args = name+" --config FILE", short, cobra.NoArgs
	exec := fromConfig(k.Load, func(_ context.Context, c C, args []string) error { return k.Exec(c, args) })
	exec.Use, exec.Short = "exec --config FILE -- COMMAND [ARGUMENT...]", "Run a program on the running host"
	exec.Hidden, exec.Args = true, cobra.MinimumNArgs(1)
	cmd.AddCommand(exec, &cobra.Command{
		Use:    "init",
		Short:  "Process 1 of the host",
		Hidden: true,
		RunE:   func(cmd *cobra.Command, args []string) error { return k.Init(cmd.Context(), args) },
	})
	cmd.CompletionOptions.DisableDefaultCmd = true
	return cmd
}

// Logger returns the log of a program that runs hosts.
func Logger(s cli.Streams) *slog.Logger { return slog.New(slog.NewTextHandler(s.Err, nil)) }

// fromConfig returns a command that reads the configuration of a host.
func fromConfig[C any](load func(string) (C, error), run func(context.Context, C, []string) error) *cobra.Command {
	var config string
	cmd := &cobra.Command{RunE: func(cmd *cobra.Command, args []string) error {
		c, err := load(config)
		if err != nil {
			return cli.Usagef("%w", err)
		}
		return run(cmd.Context(), c, args)
	}}
	cmd.Flags().StringVar(&config, "config", "", "`file` with the host's configuration (JSON)")
	if err := cmd.MarkFlagRequired("config"); err != nil {
		panic(err) // the flag above does not exist: a defect
	}
	return cmd
}
