// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package winhostcmd is the command line of mullion-winhost, the processes of an
// emulated Windows host. The cluster's supervisor runs it; users do not.
package winhostcmd

import (
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/winhost"
)

// New returns the command mullion-winhost.
func New(s cli.Streams) *cobra.Command {
	var config string
	cmd := &cobra.Command{
		Use:   "mullion-winhost --config FILE",
		Short: "Run one emulated Windows host until it is stopped",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := winhost.Load(config)
			if err != nil {
				return cli.Usagef("%w", err)
			}
			err = winhost.Run(cmd.Context(), c, logger(s))
			if errors.Is(err, host.ErrRunning) {
				return cli.Environmentf("see 'mullion status'", "%w", err)
			}
			return err
		},
	}
	cli.HostConfig(cmd, &config)
	cmd.AddCommand(newInit(), newServe(s), cli.HostExec(winhost.Load, winhost.Exec))
	cmd.CompletionOptions.DisableDefaultCmd = true
	return cmd
}

func logger(s cli.Streams) *slog.Logger { return slog.New(slog.NewTextHandler(s.Err, nil)) }

func newInit() *cobra.Command {
	return &cobra.Command{
		Use:    "init",
		Short:  "Process 1 of the host",
		Hidden: true,
		RunE:   func(cmd *cobra.Command, args []string) error { return winhost.Init(cmd.Context(), args) },
	}
}

func newServe(s cli.Streams) *cobra.Command {
	var boot string
	cmd := &cobra.Command{
		Use:    "serve --boot FILE",
		Short:  "The host's HNS and container runtime",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return winhost.Serve(cmd.Context(), boot, logger(s)) },
	}
	cmd.Flags().StringVar(&boot, "boot", "", "boot document, a `file`")
	if err := cmd.MarkFlagRequired("boot"); err != nil {
		panic(err) // the flag above does not exist: a defect
	}
	return cmd
}
