// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package winhostcmd is the command line of mullion-winhost, the processes of an
// emulated Windows host. The cluster's supervisor runs it; users do not.
package winhostcmd

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cli/hostcmd"
	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/wine"
	"github.com/mullion-k8s/mullion/internal/winhost"
)

// New returns the command mullion-winhost.
func New(s cli.Streams) *cobra.Command {
	cmd := hostcmd.New(s, "mullion-winhost", "Run one emulated Windows host until it is stopped",
		hostcmd.Kind[winhost.Config]{Load: winhost.Load, Run: run, Init: winhost.Init, Exec: winhost.Exec})
	cmd.AddCommand(newServe(s))
	return cmd
}

// run runs a host. A restart does not help if the Wine is another one.
func run(ctx context.Context, c winhost.Config, log *slog.Logger) error {
	err := winhost.Run(ctx, c, log)
	if _, unfit := errors.AsType[*wine.UnfitError](err); unfit {
		return &cli.Failure{Code: config.ExitUnusable, Err: err}
	}
	return err
}

func newServe(s cli.Streams) *cobra.Command {
	var boot string
	cmd := &cobra.Command{
		Use:    "serve --boot FILE",
		Short:  "The host's HNS and container runtime",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return winhost.Serve(cmd.Context(), boot, s.Out, hostcmd.Logger(s))
		},
	}
	cmd.Flags().StringVar(&boot, "boot", "", "boot document, a `file`")
	if err := cmd.MarkFlagRequired("boot"); err != nil {
		panic(err) // the flag above does not exist: a defect
	}
	return cmd
}
