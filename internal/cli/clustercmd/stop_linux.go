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
start' resumes it. It is 'mullion down' without --purge, but for a cluster that
does not exist, which is an error.`,
		Example: `  mullion stop
  mullion stop --name ci`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, _, err := t.existing(); err != nil {
				return err
			}
			return runDown(cmd.Context(), s, t, false)
		},
	}
	t.add(cmd)
	return cmd
}
