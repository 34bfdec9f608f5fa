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
	"golang.org/x/term"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
)

// Backup is `mullion backup`.
func Backup(s cli.Streams) *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Save a cluster's objects and keys into one file",
		Long: `Save a cluster into one archive for 'mullion restore': a snapshot of all objects,
the certificate authorities and keys, the encryption key of Secrets, and the
cluster's settings. The cluster may run. An existing FILE is replaced when the
new one is complete. '-' is the standard output.

The file is not encrypted. Anyone who can read it can read every Secret and act
as any user of the cluster.

A backup does not include the data on the hosts (container file systems, emptyDir
and hostPath volumes, images from 'mullion load') and the logs. A cluster with an
external etcd (--datastore-endpoints) is refused: use etcd's own tools for it.`,
		Example: `  mullion backup cluster.tar
  mullion backup --name ci - | zstd > ci.tar.zst`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runBackup(cmd.Context(), s, t, args[0]) },
	}
	t.add(cmd)
	return cmd
}

func runBackup(ctx context.Context, s cli.Streams, t target, file string) (err error) {
	l, cfg, err := t.existing()
	if err != nil {
		return err
	}
	if out, ok := s.Out.(*os.File); ok && file == "-" && term.IsTerminal(int(out.Fd())) {
		return cli.Usagef("the archive is not for a terminal: redirect it, or name a file")
	}
	bin, err := cluster.FindBinaries()
	if err != nil {
		return err
	}
	p := cli.NewProgress(s.Err)
	defer p.Close()
	line := p.Start("copying the objects of cluster %s", l.Name)
	b, err := cluster.TakeBackup(ctx, l, bin)
	if err != nil {
		line.Fail("cluster %s was not backed up", l.Name)
		return explainBackup(err, cfg)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	line.Done("%d keys at revision %d, checked, in %s", b.Manifest.Keys, b.Manifest.Revision, line.Elapsed())
	line = p.Start("writing %s", file)
	var size counter
	if file == "-" {
		err = b.Write(io.MultiWriter(s.Out, &size))
	} else if err = b.WriteFile(file); err == nil {
		err = size.of(file)
	}
	if err != nil {
		line.Fail("cluster %s was not backed up", l.Name)
		return err
	}
	line.Done("wrote the backup of cluster %s, %.1f MB", l.Name, float64(size)/1e6)
	return nil
}

// explainBackup adds a hint to an error of TakeBackup.
func explainBackup(err error, cfg cluster.Config) error {
	if errors.Is(err, cluster.ErrExternal) {
		return cli.WithHint(err, "back up that etcd with 'etcdctl snapshot save', and copy cluster.json and pki/ of "+
			"the cluster's directory: without the keys its Secrets cannot be read")
	}
	return cli.WithHint(err, "see 'mullion status%s'", nameFlag(cfg.Name))
}

// counter counts bytes.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// of takes the size of a file.
func (c *counter) of(file string) error {
	st, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("look at the backup: %w", err)
	}
	*c = counter(st.Size())
	return nil
}
