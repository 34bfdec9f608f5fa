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
		Short: "Remove what mullion install put onto a cluster",
		Long: `uninstall removes an installation in whatever state it is: whole, half made, with
its manager down, in another namespace than it thinks. The webhook
configurations go first, so that nothing of the cluster waits for webhooks that
nobody answers any more.

It says what it leaves, and why: RuntimeClasses that workloads name, the
definition of GMSACredentialSpecs while there are any, a namespace in which
others keep something. --purge removes these too. Pods keep their nodes and what
placement has written into them; labels of nodes stay, because they are true.`,
		Example: `  mullion uninstall
  mullion uninstall --context staging --dry-run
  mullion uninstall --purge`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if t.timeout <= 0 {
				return cli.Usagef("--timeout %s: want more than nothing", t.timeout)
			}
			ctx, stop := context.WithTimeout(cmd.Context(), t.timeout)
			defer stop()
			cluster, host, err := t.connect()
			if err != nil {
				return explain(err)
			}
			fmt.Fprintf(s.Err, "mullion from %s\n", host)
			out := newOutput(s.Err)
			defer out.close()
			err = install.Remove(ctx, cluster, install.RemoveOptions{Namespace: t.namespace, Purge: purge, DryRun: dryRun, Say: out.say, Waiting: out.waiting})
			if err != nil {
				return explain(out.fail(err))
			}
			switch {
			case out.steps == 0:
				out.done("nothing of mullion is there")
			case dryRun:
				out.done("nothing was done: --dry-run")
			}
			return nil
		},
	}
	t.flags(cmd)
	cmd.Flags().BoolVar(&purge, "purge", false, "also remove what is in use: RuntimeClasses, GMSACredentialSpecs, what others keep in the namespace")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would be removed")
	return cmd
}
