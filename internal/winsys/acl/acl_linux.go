// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package acl

import (
	"errors"
	"io/fs"
	"os"
)

func makeParents(dir string) error { return os.MkdirAll(dir, 0o755) }

// mode returns the nearest mode to a list.
func (l List) mode() os.FileMode {
	if l.ofUsers() == 0 {
		return 0o700
	}
	return 0o755
}

func makeDir(dir string, l List) error {
	if err := os.Mkdir(dir, l.mode()); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := os.Lstat(dir)
	if err != nil || st.Mode().Perm()&0o077 == l.mode()&0o077 || !st.IsDir() {
		return err // verify refuses anything but a directory
	}
	return os.Chmod(dir, l.mode())
}

func verify(dir string, l List) error {
	st, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !st.IsDir():
		return errors.New("it is not a directory")
	case st.Mode().Perm()&0o077&^l.mode() != 0:
		return errOpen
	}
	return nil
}
