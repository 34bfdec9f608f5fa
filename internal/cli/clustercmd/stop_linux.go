// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
)

// Stop is `mullion stop`.
func Stop(s cli.Streams) *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Stop a cluster and keep its data",
		Long: `Stop a cluster and keep its data: objects, images, the hosts' drives. 'mullion
start' resumes it. 'mullion down' without --purge does the same, except that a
missing cluster is an error for stop.`,
		Example: `  mullion stop
  mullion stop --name ci`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, _, err := t.existing(); err != nil {
				return err
			}
			return runDown(cmd.Context(), s, t, false, "")
		},
	}
	t.add(cmd)
	return cmd
}
