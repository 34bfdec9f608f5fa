// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/mount"
	"github.com/mullion-k8s/mullion/internal/cri/store"
)

// bind mounts an open file at a new place. It is private there, so that taking it
// down never takes anything else down.
func bind(f *os.File, dir bool, place string) error {
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		return err
	}
	if dir {
		if err := os.Mkdir(place, 0o700); err != nil {
			return err
		}
	} else if err := os.WriteFile(place, nil, 0o600); err != nil {
		return err
	}
	if err := unix.Mount(mount.Handle(f), place, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("", place, "", unix.MS_PRIVATE, "")
}

// maxMountOptions is the size of the page in which mount(2) takes its options,
// less the terminating zero.
const maxMountOptions = 4095

// mountRoot stacks a container's layers: the layers of drive C, and the layers of
// the root directory that holds it. The writable layers are the container's own;
// the others are shared and stay as they are.
func (s *Server) mountRoot(ctx context.Context, c *store.Container, img *image.Image,
	sb store.Sandbox) (failed error) {
	layers, err := s.cfg.Engine.Layers(ctx, c.User, s.hostname(sb.Config))
	if err != nil {
		return fmt.Errorf("prepare Windows layers: %w", err)
	}
	drive, linux := slices.Concat(layers.Below, img.Layers, layers.Above), layers.Linux
	if account, _ := s.cfg.Engine.Owner(); account >= 0 && s.firstUID(sb) != uint32(account) {
		mapped, release, err := mount.Mapped(s.mappedDir(), slices.Concat(drive, linux),
			userMaps(account, int(s.firstUID(sb))))
		if err != nil {
			return fmt.Errorf("mount container root: %w", err)
		}
		// The stacks keep the layers that they were made of.
		defer func() { failed = errors.Join(failed, release()) }()
		drive, linux = mapped[:len(drive)], mapped[len(drive):]
	}
	if err := s.mountDrive(ctx, c.ID, drive, sb); err != nil {
		return err
	}
	if len(linux) == 0 {
		return nil
	}
	// Its files belong to root but for the prefix and the socket's directory,
	// which the layers give to the account.
	upper := s.dir(c.ID, linuxUpperDir)
	if err := os.MkdirAll(upper, 0o755); err != nil {
		return fmt.Errorf("create container root: %w", err)
	}
	return mountOverlay(linux, upper, s.dir(c.ID, linuxWorkDir), s.dir(c.ID, linuxRootDir))
}

// mappedDir holds layers while they are stacked. Its name is short, because the names of all
// layers must fit into the options of a mount; it is empty after a restart of the host.
func (s *Server) mappedDir() string { return filepath.Join(s.cfg.RunDir, "l") }

// linuxRoot returns the root directory of a container's Linux processes.
func (s *Server) linuxRoot(id string) string {
	if s.cfg.Engine.Drive() == "/" {
		return s.dir(id, rootDir)
	}
	return s.dir(id, linuxRootDir)
}

func (s *Server) mountDrive(ctx context.Context, id string, layers []string, sb store.Sandbox) error {
	if err := s.makeOwned(s.dir(id, upperDir), sb); err != nil {
		return fmt.Errorf("create container root: %w", err)
	}
	// C:\ itself: on Windows all users may make directories there (winemend.dll
	// refuses files), and remove or rename their own.
	if err := os.Chmod(s.dir(id, upperDir), 0o777|os.ModeSticky); err != nil {
		return fmt.Errorf("create container root: %w", err)
	}
	if err := s.point(ctx, "container.create.before-mount"); err != nil {
		return err
	}
	return mountOverlay(layers, s.dir(id, upperDir), s.dir(id, workDir), s.dir(id, rootDir))
}

// mountOverlay mounts layers, lowest first, and a writable one at a directory.
func mountOverlay(layers []string, upper, work, at string) error {
	for _, d := range []string{at, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("create container root: %w", err)
		}
	}
	options, err := overlayOptions(layers, upper, work)
	if err != nil {
		return err
	}
	if err := unix.Mount("overlay", at, "overlay", unix.MS_NODEV|unix.MS_NOSUID, options); err != nil {
		return fmt.Errorf("mount container root: %w", err)
	}
	return nil
}

// overlayOptions describes the stack; overlayfs wants the highest layer first.
func overlayOptions(layers []string, upper, work string) (string, error) {
	if len(layers) == 0 {
		return "", errors.New("mount container root: the image has no layers")
	}
	lower := slices.Clone(layers)
	slices.Reverse(lower)
	for i, l := range lower {
		lower[i] = escapeOption(l)
	}
	options := "lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + escapeOption(upper) + ",workdir=" +
		escapeOption(work)
	if len(options) > maxMountOptions {
		return "", fmt.Errorf("mount container root: too many layers (%d)", len(layers))
	}
	return options, nil
}

// escapeOption hides the separators of overlayfs' options.
func escapeOption(p string) string {
	return strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`).Replace(p)
}

// isNamespace reports whether a file is a live network namespace, which is a
// mount of the kernel's nsfs; a reboot leaves an empty file.
func isNamespace(name string) bool {
	var st unix.Statfs_t
	return unix.Statfs(name, &st) == nil && st.Type == unix.NSFS_MAGIC
}
