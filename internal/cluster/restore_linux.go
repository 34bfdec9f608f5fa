// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/cluster/archive"
	"github.com/mullion-k8s/mullion/internal/durable"
)

// ErrExists is returned, wrapped, for a cluster that would be overwritten.
var ErrExists = errors.New("the cluster exists already")

// Restore makes a cluster's directory from a backup. The cluster has the name and the
// addresses of the one that was backed up, because its objects are full of them. It must
// not exist; if Restore fails, it does not exist afterwards either, and the results have
// the known facts about the backup.
func Restore(ctx context.Context, dataDir string, bin Binaries, backup io.Reader) (Config, archive.Manifest, error) {
	making, err := lockMaking(Layout{DataDir: dataDir})
	if err != nil {
		return Config{}, archive.Manifest{}, err
	}
	defer making.Unlock()
	staging := Layout{DataDir: dataDir}.staging()
	c, m, err := restoreInto(ctx, staging, dataDir, bin, backup)
	if err != nil {
		return c, m, errors.Join(err, os.RemoveAll(staging))
	}
	return c, m, nil
}

func restoreInto(
	ctx context.Context, staging, dataDir string, bin Binaries, backup io.Reader,
) (c Config, m archive.Manifest, err error) {
	// Remove the remains of a killed restore.
	if err := os.RemoveAll(staging); err != nil {
		return c, m, fmt.Errorf("restore: %w", err)
	}
	if err := os.Mkdir(staging, 0o700); err != nil {
		return c, m, fmt.Errorf("restore: %w", err)
	}
	if m, err = archive.Extract(backup, staging); err != nil {
		return c, m, err
	}
	c, err = durable.ReadDocument(filepath.Join(staging, archive.Cluster), (*Config).validate)
	if err != nil {
		return c, m, fmt.Errorf("%w: %w", archive.ErrDamaged, err)
	}
	l := Layout{dataDir, c.Name}
	if err := free(l, c); err != nil {
		return c, m, err
	}
	server := describeServer(l, c)
	server.DataDir = staging
	if _, err := runSnapshot(ctx, bin, "restore", server, staging); err != nil {
		return c, m, fmt.Errorf("restore cluster %q: %w", c.Name, err)
	}
	if err := os.Remove(filepath.Join(staging, archive.Snapshot)); err != nil {
		return c, m, fmt.Errorf("restore: %w", err)
	}
	if err := syncAll(staging); err != nil {
		return c, m, fmt.Errorf("restore: %w", err)
	}
	if err := os.Rename(staging, l.Dir()); err != nil {
		return c, m, fmt.Errorf("restore: %w", err)
	}
	return c, m, durable.SyncDir(l.clusters())
}

// free returns an error if the cluster cannot be added to its data directory.
func free(l Layout, c Config) error {
	if !c.Datastore.Embedded() {
		return fmt.Errorf("%w: its cluster uses %s", archive.ErrDamaged, datastoreName(c.Datastore))
	}
	if _, err := os.Lstat(l.Dir()); err == nil {
		return fmt.Errorf("restore cluster %q: %w: %s", c.Name, ErrExists, l.Dir())
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("restore cluster %q: %w", c.Name, err)
	}
	names, err := Names(l.DataDir)
	if err != nil {
		return err
	}
	for _, n := range names {
		// One that cannot be read does not run either.
		if other, err := Load(Layout{l.DataDir, n}); err == nil && other.Index == c.Index {
			return fmt.Errorf("restore cluster %q: cluster %[3]q has its addresses %[2]s", c.Name,
				c.Network().nodes(), n)
		}
	}
	return nil
}

// syncAll writes everything that was written to the file system of dir to its disk.
func syncAll(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}
