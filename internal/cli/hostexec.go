// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cli

import "github.com/spf13/cobra"

// HostExec returns the hidden command `exec` of the programs that run hosts: it reads
// the host's configuration and runs a program on the host.
func HostExec[C any](load func(file string) (C, error), exec func(c C, argv []string) error) *cobra.Command {
	var config string
	cmd := &cobra.Command{
		Use:    "exec --config FILE -- COMMAND [ARGUMENT...]",
		Short:  "Run a program on the running host",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := load(config)
			if err != nil {
				return Usagef("%w", err)
			}
			return exec(c, args)
		},
	}
	HostConfig(cmd, &config)
	return cmd
}

// HostConfig adds the required flag for the configuration of a host.
func HostConfig(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "config", "", "`file` with the host's configuration (JSON)")
	if err := cmd.MarkFlagRequired("config"); err != nil {
		panic(err) // the flag above does not exist: a defect
	}
}
