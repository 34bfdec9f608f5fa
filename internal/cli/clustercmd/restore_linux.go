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
		Long: `Make a cluster from a file that 'mullion backup' has written; '-' is the standard
input. The cluster must not exist. It gets the name and the addresses of the one
that was backed up, so the two cannot run on one machine at the same time.
Every part of the file is checked before anything is made.

'mullion up' then starts it. Its hosts are new: they join again and start the
containers of all pods afresh. Load images that are in no registry with
'mullion load' once more.`,
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

// explainRestore adds what to do to an error of cluster.Restore.
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
