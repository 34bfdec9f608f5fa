// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package linuxhostcmd is the command line of mullion-linuxhost, the processes of a
// Linux worker. The cluster's supervisor runs it; users do not.
package linuxhostcmd

import (
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/linuxhost"
)

// New returns the command mullion-linuxhost.
func New(s cli.Streams) *cobra.Command {
	var config string
	cmd := &cobra.Command{
		Use:   "mullion-linuxhost --config FILE",
		Short: "Run one Linux worker until it is stopped",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := linuxhost.Load(config)
			if err != nil {
				return cli.Usagef("%w", err)
			}
			err = linuxhost.Run(cmd.Context(), c, slog.New(slog.NewTextHandler(s.Err, nil)))
			if errors.Is(err, host.ErrRunning) {
				return cli.Environmentf("see 'mullion status'", "%w", err)
			}
			return err
		},
	}
	cli.HostConfig(cmd, &config)
	cmd.AddCommand(&cobra.Command{
		Use:    "init",
		Short:  "Process 1 of the host",
		Hidden: true,
		RunE:   func(cmd *cobra.Command, args []string) error { return linuxhost.Init(cmd.Context(), args) },
	}, cli.HostExec(linuxhost.Load, linuxhost.Exec))
	cmd.CompletionOptions.DisableDefaultCmd = true
	return cmd
}
