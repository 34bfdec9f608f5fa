// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/cri/mount"
	"github.com/mullion-k8s/mullion/internal/cri/store"
)

// Logs lie on the host's drive C, where HostProcess containers may put links
// in the place of anything, and conmon, which opens a log at the start and at
// each rotation, has all rights. So it gets the directory as it was found, in
// which no link is followed.

// pinLog mounts the directory of a container's log at a place of the container's
// own.
func (s *Server) pinLog(c store.Container) error {
	if c.LogPath == "" {
		return nil
	}
	rel, err := filepath.Rel(s.cfg.Drive, filepath.Dir(c.LogPath))
	if err != nil {
		return err
	}
	f, err := mount.OpenBeneath(s.cfg.Drive, rel)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only a handle
	place := s.dir(c.ID, logDir)
	if err := bind(f, true, place); err != nil {
		return err
	}
	const flags = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_NOSYMFOLLOW | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("", place, "", flags, ""); err != nil {
		return fmt.Errorf("follow no links in %s: %w", place, err)
	}
	return nil
}

// logFile returns the log as conmon opens it, or "".
func (s *Server) logFile(c store.Container) string {
	if c.LogPath == "" {
		return ""
	}
	pinned := s.dir(c.ID, logDir)
	if _, err := os.Lstat(pinned); err != nil {
		return c.LogPath // of an older version's container
	}
	return filepath.Join(pinned, filepath.Base(c.LogPath))
}
