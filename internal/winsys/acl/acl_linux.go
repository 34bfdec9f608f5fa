// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package acl

import (
	"errors"
	"io/fs"
	"os"
)

func makeParents(dir string) error { return os.MkdirAll(dir, 0o755) }

func makePrivate(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := os.Lstat(dir)
	if err != nil || st.Mode().Perm()&0o077 == 0 || !st.IsDir() {
		return err // verify refuses what is not a directory
	}
	return os.Chmod(dir, 0o700)
}

func makeShared(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !st.IsDir():
		return errors.New("it is not a directory")
	}
	return os.Chmod(dir, 0o755)
}

func verify(dir string) error {
	st, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !st.IsDir():
		return errors.New("it is not a directory")
	case st.Mode().Perm()&0o077 != 0:
		return errOpen
	}
	return nil
}
