// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
	"github.com/mullion-k8s/mullion/internal/cluster/archive"
)

// Restore is `mullion restore`.
func Restore(s cli.Streams) *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a cluster from a backup",
		Long: `Make a cluster from a file of 'mullion backup'; '-' is the standard input. The
cluster must not exist. It gets the name and the addresses of the original, so
the two cannot run on one machine at the same time. restore checks every part of
the file before it makes the cluster.

'mullion up' then starts it. Its hosts are new: they join again and start the
containers of all pods again. Repeat 'mullion load' for images without a registry.`,
		Example: `  mullion restore cluster.tar && mullion up
  zstd -d < ci.tar.zst | mullion restore -
  mullion down --purge && mullion restore cluster.tar && mullion up    # go back`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runRestore(cmd.Context(), s, dataDir, args[0]) },
	}
	addDataDir(cmd, &dataDir)
	return cmd
}

func runRestore(ctx context.Context, s cli.Streams, dataDir, file string) error {
	dir, err := absolute(dataDir)
	if err != nil {
		return err
	}
	bin, err := cluster.FindBinaries()
	if err != nil {
		return err
	}
	in, done, err := open(s.In, file)
	if err != nil {
		return err
	}
	defer done()
	p := cli.NewProgress(s.Err)
	defer p.Close()
	line := p.Start("restoring from %s", file)
	cfg, m, err := cluster.Restore(ctx, dir, bin, in)
	if err != nil {
		line.Fail("nothing was restored")
		return explainRestore(err, file, dataDir, cfg.Name)
	}
	line.Done("restored cluster %s as of %s, %d keys, in %s", cfg.Name,
		m.Created.Local().Format("2006-01-02 15:04:05"), m.Keys, line.Elapsed())
	fmt.Fprintf(s.Err, "   next: mullion up%s%s; images from 'mullion load' are not part of a backup\n",
		nameFlag(cfg.Name), dataDirFlag(dataDir))
	return nil
}

// open opens a file, or standard input for "-".
func open(in io.Reader, file string) (r io.Reader, done func(), err error) {
	if file == "-" {
		return in, func() {}, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, fmt.Errorf("open backup: %w", err)
	}
	return f, func() { _ = f.Close() }, nil // opened for reading
}

// explainRestore adds a hint to an error of cluster.Restore.
func explainRestore(err error, file, dataDir, name string) error {
	switch {
	case errors.Is(err, cluster.ErrExists):
		return cli.WithHint(err, "remove that cluster with 'mullion down%s%s --purge', or restore into another "+
			"directory with --data-dir", nameFlag(name), dataDirFlag(dataDir))
	case errors.Is(err, archive.ErrNewer):
		return cli.WithHint(err, "restore it with that version of mullion, or a later one")
	case errors.Is(err, archive.ErrDamaged):
		return cli.WithHint(err, "use another copy of %s: nothing was changed in %s", file, dataDir)
	}
	return err
}
