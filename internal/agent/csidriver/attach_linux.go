// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package csidriver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

func makePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// makeVolumes: containers have volumes as mounts, and need no way to them.
func makeVolumes(dir string) error { return makePrivate(dir) }

// makeData makes a volume's directory. Like an emptyDir, it is for every user of the
// pod.
func makeData(dir string) error {
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return fmt.Errorf("%s is not a directory: %w", dir, fs.ErrExist)
	}
	return os.Chmod(dir, 0o777) // regardless of the umask
}

// attach makes a bind mount.
func attach(data string, at target) error {
	if err := os.Mkdir(at.Path, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := os.Lstat(at.Path)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return fmt.Errorf("%s is not a directory: %w", at.Path, fs.ErrExist)
	}
	if want, err := os.Lstat(data); err != nil {
		return err
	} else if !os.SameFile(want, st) {
		if err := unix.Mount(data, at.Path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", at.Path, err)
		}
	}
	if !at.ReadOnly {
		return nil
	}
	if err := unix.Mount("", at.Path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return errors.Join(fmt.Errorf("make %s read-only: %w", at.Path, err), detach(at.Path))
	}
	return nil
}

// detach unmounts and removes the empty directory below. It follows no link.
func detach(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return fmt.Errorf("%s is not a directory: %w", path, fs.ErrExist)
	}
	for {
		err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) { // not a mount point, any more
			return os.Remove(path)
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
}

func space(dir string) (total, free int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("query the space of %s: %w", dir, err)
	}
	return int64(st.Blocks) * st.Bsize, int64(st.Bavail) * st.Bsize, nil
}
