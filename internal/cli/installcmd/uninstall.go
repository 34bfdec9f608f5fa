// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package installcmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/install"
)

// NewUninstall makes the command uninstall.
func NewUninstall(s cli.Streams) *cobra.Command {
	var t target
	var purge, dryRun bool
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove mullion's installation from a cluster",
		Long: `Remove an installation, also if it is incomplete, in another namespace, or its
manager is down. uninstall removes the webhook configurations first, so that the
API server does not wait for webhooks that no longer answer.

It keeps RuntimeClasses that workloads use, the definition of GMSACredentialSpecs
while any exist, and the namespace if it holds other objects. It lists them with
the reason, and --purge removes them too. Pods stay on their nodes and keep the
fields that placement set. Nodes keep their labels, which are still correct.`,
		Example: `  mullion uninstall
  mullion uninstall --context staging --dry-run
  mullion uninstall --purge`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if t.timeout <= 0 {
				return cli.Usagef("--timeout %s: must be positive", t.timeout)
			}
			ctx, stop := context.WithTimeout(cmd.Context(), t.timeout)
			defer stop()
			cluster, host, err := t.connect()
			if err != nil {
				return explain(err)
			}
			fmt.Fprintf(s.Err, "removing mullion from %s\n", host)
			out := newOutput(s.Err)
			defer out.close()
			err = install.Remove(ctx, cluster, install.RemoveOptions{
				Namespace: t.namespace,
				Purge:     purge,
				DryRun:    dryRun,
				Say:       out.say,
				Waiting:   out.waiting,
			})
			if err != nil {
				return explain(out.fail(err))
			}
			switch {
			case out.steps == 0:
				out.done("mullion is not installed")
			case dryRun:
				out.done("nothing was removed (--dry-run)")
			}
			return nil
		},
	}
	t.flags(cmd)
	cmd.Flags().BoolVar(&purge, "purge", false, "also remove objects in use: RuntimeClasses, GMSACredentialSpecs, "+
		"and the namespace with all its contents")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "list the objects to remove; change nothing")
	return cmd
}
