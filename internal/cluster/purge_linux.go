// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/cri/mount"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/winhost"
)

// Purge removes the cluster's directory. It first detaches mounts below it, which
// a crash may have left: removing files through a mount would delete files that
// belong to others.
func Purge(l Layout) error {
	pid, err := durable.Holder(l.lock())
	if err != nil {
		return err
	}
	if pid != 0 {
		return fmt.Errorf("remove %s: the cluster runs (process %d)", l.Dir(), pid)
	}
	if err := unmountBelow(l.Dir()); err != nil {
		return err
	}
	if err := (Config{Name: l.Name}).nameClaim().forget(); err != nil {
		return err
	}
	if c, err := Load(l); err == nil { // without, an empty lock file stays until the machine boots
		if err := c.networkClaim().forget(); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(l.Dir()); err != nil {
		return fmt.Errorf("remove data: %w", err)
	}
	return removeIfLast(l)
}

// removeIfLast removes the shared cache and the data directory itself if no
// cluster is left in it. It keeps a directory that contains foreign files.
func removeIfLast(l Layout) error {
	names, err := Names(l.DataDir)
	if err != nil || len(names) > 0 {
		return err
	}
	if err := unmountBelow(l.cache()); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(l.cache()), os.RemoveAll(l.clusters()), os.RemoveAll(l.staging())); err != nil {
		return fmt.Errorf("remove data: %w", err)
	}
	err = os.Remove(l.DataDir)
	// A mounted file system, such as a container's volume, stays mounted.
	for _, fine := range []error{unix.ENOTEMPTY, unix.EBUSY, os.ErrNotExist} {
		if errors.Is(err, fine) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("remove data: %w", err)
	}
	return nil
}

// PruneCache removes files of earlier versions of Wine or mullion from the shared
// cache if no host of any cluster uses them, and returns their names.
func PruneCache(l Layout) ([]string, error) {
	hosts, err := filepath.Glob(filepath.Join(l.clusters(), "*", "nodes", "*"))
	if err != nil {
		return nil, fmt.Errorf("list hosts: %w", err)
	}
	return winhost.PruneCache(l.cache(), hosts)
}

// unmountBelow detaches every mount at or below dir: first the mounts that hide others below them.
func unmountBelow(dir string) error {
	if err := mount.Unmount(dir); err != nil {
		return err
	}
	return mount.UnmountBelow(dir)
}
