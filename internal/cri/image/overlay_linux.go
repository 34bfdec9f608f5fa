// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Overlayfs marks: Documentation/filesystems/overlayfs.rst of Linux, "whiteouts
// and opaque directories". The trusted. name needs CAP_SYS_ADMIN; mounts made
// with userxattr read the user. one.
const (
	opaqueTrusted = "trusted.overlay.opaque"
	opaqueUser    = "user.overlay.opaque"
)

// makeWhiteout creates the character device 0/0, which overlayfs reads as
// "deleted", in a directory. Linux lets any user create that one device.
func makeWhiteout(in *os.Root, base string) error {
	dir, err := in.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close() // opened for reading
	if err := unix.Mknodat(int(dir.Fd()), base, unix.S_IFCHR, 0); err != nil {
		return fmt.Errorf("make whiteout: %w", err)
	}
	return nil
}

// opaque hides everything that the layers below have in a directory.
func opaque(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close() // opened for reading
	err = unix.Fsetxattr(int(dir.Fd()), opaqueTrusted, []byte("y"), 0)
	if errors.Is(err, unix.EPERM) {
		err = unix.Fsetxattr(int(dir.Fd()), opaqueUser, []byte("y"), 0)
	}
	if err != nil {
		return fmt.Errorf("mark opaque: %w", err)
	}
	return nil
}

// SyncTree puts everything below a directory on the disk. One call for the
// whole file system is far cheaper than one per file.
func SyncTree(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close() // opened for reading
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

func isSpace(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
