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
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/wine"
)

// openBeneath opens what lies at a path without links below a directory, for
// its place only: nothing can be read through it. A link that has come into the
// path meanwhile is an error.
func openBeneath(dir, rel string) (*os.File, error) {
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	defer func() { _ = unix.Close(at) }() // only a handle
	fd, err := unix.Openat2(at, rel, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "openat2", Path: rel, Err: err}
	}
	return os.NewFile(uintptr(fd), rel), nil
}

// handle returns a path that names the open file, even if it was moved.
func handle(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// bind mounts what is open at a new place. It is private there, so that taking
// it down never takes anything else down.
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
	if err := unix.Mount(handle(f), place, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("", place, "", unix.MS_PRIVATE, "")
}

// maxMountOptions is the size of the page in which mount(2) takes its options,
// less the terminating zero.
const maxMountOptions = 4095

// mountRoot stacks a container's layers: those of drive C, and those of the root
// directory that holds it. The writable layers are the container's own; the others
// are shared and stay as they are.
func (s *Server) mountRoot(ctx context.Context, id string, img *image.Image, a wine.Account) error {
	layers, err := s.layers(ctx, img, a)
	if err != nil {
		return err
	}
	if err := s.mountDrive(ctx, id, layers); err != nil {
		return err
	}
	linux, err := s.cfg.Engine.LinuxLayers(ctx, a)
	if err != nil || len(linux) == 0 {
		return err
	}
	// Its files belong to root but for the prefix and the socket's directory,
	// which the layers give to the account.
	if err := os.MkdirAll(s.dir(id, linuxUpperDir), 0o755); err != nil {
		return fmt.Errorf("create container root: %w", err)
	}
	return mountOverlay(linux, s.dir(id, linuxUpperDir), s.dir(id, linuxWorkDir), s.dir(id, linuxRootDir))
}

// linuxRoot returns the root directory of a container's Linux processes.
func (s *Server) linuxRoot(id string) string {
	if s.cfg.Engine.Drive() == "/" {
		return s.dir(id, rootDir)
	}
	return s.dir(id, linuxRootDir)
}

func (s *Server) mountDrive(ctx context.Context, id string, layers []string) error {
	if err := s.makeOwned(s.dir(id, upperDir)); err != nil {
		return fmt.Errorf("create container root: %w", err)
	}
	// C:\ itself: on Windows everybody makes directories there (winemend.dll
	// refuses files), and removes or renames what is his own.
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

// unmountRoot takes the stack down; one that is not there is no error. The
// mount is detached even if something holds it, because all processes of the
// container are gone when this is called.
func unmountRoot(dir string) error {
	for {
		err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			return nil
		case err != nil:
			return fmt.Errorf("unmount %s: %w", dir, err)
		}
	}
}

// unmountBelow takes down everything that is mounted below a directory, so that
// the directory can be removed without touching what was mounted.
func unmountBelow(dir string) error {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if err := unmountRoot(m); err != nil {
			return err
		}
	}
	if mounts, err = mountsBelow(dir); err == nil && len(mounts) > 0 {
		err = fmt.Errorf("unmount %s: still mounted: %v", dir, mounts)
	}
	return err
}

// mountsBelow lists the mount points below a directory, deepest first; see
// proc_pid_mountinfo(5).
func mountsBelow(dir string) ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		// Spaces and the like are written in octal.
		name := unescapeOctal(fields[4])
		if rel, err := filepath.Rel(dir, name); err == nil && rel != "." && !strings.HasPrefix(rel, "..") {
			out = append(out, name)
		}
	}
	slices.Reverse(out)
	return out, nil
}

func unescapeOctal(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// isNamespace reports whether a file is a live network namespace, which is a
// mount of the kernel's nsfs; a reboot leaves an empty file.
func isNamespace(name string) bool {
	var st unix.Statfs_t
	return unix.Statfs(name, &st) == nil && st.Type == unix.NSFS_MAGIC
}
