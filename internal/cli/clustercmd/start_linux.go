// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
)

// Start is `mullion start`.
func Start(s cli.Streams) *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Resume a cluster that was stopped",
		Long:  `Resume a cluster with its settings. This is 'mullion up' for an existing cluster.`,
		Example: `  mullion stop && mullion start
  mullion start --name ci --wait 1m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, _, err := f.existing(); err != nil {
				return err
			}
			return runUp(cmd.Context(), s, f)
		},
	}
	f.add(cmd)
	f.addWait(cmd)
	f.addKubeconfig(cmd)
	return cmd
}
