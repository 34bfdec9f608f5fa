// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
)

// Down is `mullion down`.
func Down(s cli.Streams) *cobra.Command {
	var t target
	var purge bool
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop a cluster; with --purge, remove its data too",
		Long: `Stop a cluster and remove all of its processes, network namespaces, mounts,
nftables tables and network links. The next 'mullion up' finds its data again,
unless you pass --purge.`,
		Example: `  mullion down
  mullion down --name ci --purge`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDown(cmd.Context(), s, t, purge, kubeconfig) },
	}
	t.add(cmd)
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "",
		"kubeconfig `file` that loses the cluster's context, or none (default: the file that up added it to)")
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the cluster's data too: objects, keys, images, logs")
	return cmd
}

func runDown(ctx context.Context, s cli.Streams, t target, purge bool, kubeconfig string) error {
	l, err := t.layout()
	if err != nil {
		return err
	}
	_, err = cluster.Load(l)
	missing := errors.Is(err, cluster.ErrNotFound)
	if !missing && os.Geteuid() != 0 {
		return cli.Environmentf("run it with sudo", "mullion down needs root to remove network namespaces and mounts")
	}
	p := cli.NewProgress(s.Err)
	defer p.Close()
	line := p.Start("stopping cluster %s", l.Name)
	if err := cluster.Stop(ctx, l); err != nil {
		line.Fail("stopping cluster %s", l.Name)
		return err
	}
	if err := cluster.Clean(ctx, l); err != nil {
		line.Fail("stopping cluster %s", l.Name)
		return err
	}
	if missing {
		// Not an error: the cluster is not running, as requested. Stop and Clean have
		// removed the remains of a cluster whose directory was deleted.
		line.Done("nothing to stop: no cluster %s in %s", l.Name, l.DataDir)
	} else {
		line.Done("stopped cluster %s in %s", l.Name, line.Elapsed())
	}
	if file, err := removeContext(ctx, l, kubeconfig); err != nil {
		fmt.Fprintf(s.Err, "mullion: warning: %v\n", err)
	} else if file != "" {
		fmt.Fprintf(s.Err, "   removed context %s from %s\n", contextName(l), file)
	}
	if _, err := os.Stat(l.Dir()); !purge || errors.Is(err, fs.ErrNotExist) {
		pruneCache(s, l)
		return nil
	}
	line = p.Start("removing %s", l.Dir())
	if err := cluster.Purge(l); err != nil {
		line.Fail("removing %s", l.Dir())
		return fmt.Errorf("purge: %w", err)
	}
	line.Done("removed %s", l.Dir())
	pruneCache(s, l)
	return nil
}

// pruneCache removes the files that no cluster uses, and prints their names. A failure is
// only a warning: the remaining files just take up space.
func pruneCache(s cli.Streams, l cluster.Layout) {
	removed, err := cluster.PruneCache(l)
	if len(removed) > 0 {
		fmt.Fprintf(s.Err, "   removed from the cache, as no cluster uses it: %s\n", strings.Join(removed, ", "))
	}
	if err != nil {
		fmt.Fprintf(s.Err, "mullion: warning: %v\n", err)
	}
}
