// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
)

// Run returns `mullion cluster run`, the supervisor, which `mullion up` starts.
func Run(s cli.Streams) *cobra.Command {
	group := &cobra.Command{Use: "cluster", Short: "Internal commands of mullion"}
	var t target
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Supervise a cluster in the foreground",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, _, err := t.existing()
			if err != nil {
				return err
			}
			bin, err := cluster.FindBinaries()
			if err != nil {
				return err
			}
			err = cluster.Run(cmd.Context(), l, bin, slog.New(slog.NewTextHandler(s.Err, nil)))
			if errors.Is(err, cluster.ErrRunning) {
				return cli.WithHint(err, "see 'mullion status%s'", nameFlag(t.name))
			}
			return err
		},
	}
	t.add(cmd)
	group.AddCommand(cmd)
	return group
}
