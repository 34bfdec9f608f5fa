// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package durable

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// WriteFile replaces the file at path with data; see Replace.
func WriteFile(path string, data []byte, perm os.FileMode) error {
	return Replace(path, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Replace replaces the file at path with the output of write, so that a reader, or the
// same program after a power cut, finds the old content or the new content and never a
// part. The new content is on the disk when Replace returns: it is written to a temporary
// file in the same directory, synced and renamed, and the directory is synced (rename(2)
// alone promises no order). The file never exists with wider permissions than perm. If
// write fails, the old file stays.
func Replace(path string, perm os.FileMode, write func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	// CreateTemp opens with O_EXCL and mode 0600.
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			// The first error counts; a temporary file that stays does no harm.
			_ = os.Remove(f.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	err = errors.Join(write(f), f.Chmod(perm), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}
