// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
)

// URL is `mullion url`.
func URL(s cli.Streams) *cobra.Command {
	var t target
	var namespace, port string
	cmd := &cobra.Command{
		Use:   "url SERVICE",
		Short: "Print the address at which a Service answers from this machine",
		Example: `  curl "$(mullion url win-webserver)"
  mullion url web --namespace shop --port https`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, _, err := t.existing()
			if err != nil {
				return err
			}
			client, err := cluster.Client(l)
			if err != nil {
				return err
			}
			url, err := cluster.ServiceURL(cmd.Context(), client, namespace, args[0], port)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(s.Out, url)
			return err
		},
	}
	t.add(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "the Service's `namespace`")
	cmd.Flags().StringVar(&port, "port", "", "`name` of the Service's port (default: the first)")
	return cmd
}

// exactArgs is cobra.ExactArgs with a usage error.
func exactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cobra.ExactArgs(n)(cmd, args); err != nil {
			return cli.Usagef("%w", err)
		}
		return nil
	}
}
