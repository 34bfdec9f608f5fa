// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package csidriver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"

	"github.com/mullion-k8s/mullion/internal/winsys/acl"
)

func makePrivate(dir string) error { return acl.Make(dir, acl.Private()) }

// makeVolumes: containers reach a volume with their own accounts, see acl.Volumes.
func makeVolumes(dir string) error { return acl.Make(dir, acl.Volumes()) }

// makeData makes a volume's directory, which inherits its rights.
func makeData(dir string) error {
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// attach makes a link: a mount of the kubelet on Windows is one (k8s.io/mount-utils
// mount_windows.go). The container runtime keeps a volume read-only: it gets the setting
// from the kubelet.
func attach(data string, at target) error {
	if to, err := os.Readlink(at.Path); err == nil && strings.EqualFold(filepath.Clean(to), filepath.Clean(data)) {
		return nil
	}
	if err := detach(at.Path); err != nil {
		return err
	}
	return os.Symlink(data, at.Path)
}

// detach removes a link, or an empty directory that was made for it. The link's target
// stays.
func detach(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode().IsRegular() {
		return fmt.Errorf("%s is a file: %w", path, fs.ErrExist)
	}
	return os.Remove(path)
}

func space(dir string) (total, free int64, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	var available, all uint64
	if err := windows.GetDiskFreeSpaceEx(name, &available, &all, nil); err != nil {
		return 0, 0, fmt.Errorf("query the space of %s: %w", dir, err)
	}
	return int64(all), int64(available), nil
}
