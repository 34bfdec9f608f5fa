// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package linuxhostcmd is the command line of mullion-linuxhost, the processes of a
// Linux worker. The cluster's supervisor runs it; users do not.
package linuxhostcmd

import (
	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cli/hostcmd"
	"github.com/mullion-k8s/mullion/internal/linuxhost"
)

// New returns the command mullion-linuxhost.
func New(s cli.Streams) *cobra.Command {
	cmd := hostcmd.New(s, "mullion-linuxhost", "Run one Linux worker until it is stopped",
		hostcmd.Kind[linuxhost.Config]{
			Load: linuxhost.Load, Run: linuxhost.Run, Init: linuxhost.Init, Exec: linuxhost.Exec,
		})
	cmd.AddCommand(&cobra.Command{
		Use:    linuxhost.ProtectCommand,
		Short:  "Hook of runc",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return linuxhost.Protect(s.In) },
	})
	return cmd
}
