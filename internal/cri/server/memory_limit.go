// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/mullion-k8s/mullion/internal/cri/mount"
)

// memoryFile is the file in the status directory that has the limit of a container's memory in bytes. There is none
// without a limit. native/winemend refuses allocations beyond it (commit.c).
const memoryFile = ".memory"

// writeMemoryLimit writes the limit for the programs of a container, which may run. It replaces the file, because the
// directory is theirs: they may have put a link or a pipe there.
func (s *Server) writeMemoryLimit(id string, bytes int64) error {
	if err := replaceNumber(s.dir(id, statusDir, memoryFile), bytes); err != nil {
		return fmt.Errorf("write memory limit: %w", mount.WithoutPath(err))
	}
	return nil
}

// replaceNumber replaces a file by one with the number. If that is not positive, it only removes the file.
func replaceNumber(file string, n int64) error {
	if n <= 0 {
		return os.RemoveAll(file)
	}
	next := file + ".new"
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.FormatInt(n, 10))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(next, file)
}
