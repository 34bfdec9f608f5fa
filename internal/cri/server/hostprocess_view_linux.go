// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/winsys/winpath"
)

// A HostProcess container sees the host's drive C with the image's files at
// C:\hpc and its volumes at their places, which no other program of the host
// sees: Windows' bind filter does that for a silo. Here the container has a
// prefix of its own, its view: the host's, mounted a second time, with the rest
// on top. Wine tells prefixes apart by device and inode, so that the container's
// programs find the host's wineserver; and it opens files by the client's path,
// so that wineserver looks into the view.

// makeHostRoot mounts the image's files and makes the view with the volumes.
func (s *Server) makeHostRoot(ctx context.Context, c *store.Container, img *image.Image) error {
	if err := s.mountDrive(ctx, c.ID, img.Layers); err != nil {
		return err
	}
	if err := s.point(ctx, "container.create.after-rootfs"); err != nil {
		return err
	}
	view := s.view(c.ID)
	if err := os.MkdirAll(view, 0o700); err != nil {
		return fmt.Errorf("create view of the host: %w", err)
	}
	// Shared or not as the directory of views is: wineserver must see it too.
	if err := unix.Mount(s.cfg.HostProcesses.Wine.Prefix, view, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("create view of the host: %w", err)
	}
	root, err := os.Open(s.dir(c.ID, rootDir))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // only a handle
	if err := s.bindIntoView(view, imageRoot, root, true, false); err != nil {
		return fmt.Errorf("bind image to %s: %w", imageRoot, err)
	}
	for _, m := range c.Config.GetMounts() {
		if err := s.hostMount(c.ID, view, m); err != nil {
			return err
		}
	}
	return s.makeLinuxRoot(c.ID)
}

// makeLinuxRoot makes the status directory, and the links that distributions
// have at the root.
func (s *Server) makeLinuxRoot(id string) error {
	root := s.dir(id, linuxRootDir)
	for _, d := range []string{root, s.dir(id, statusDir)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	for _, name := range []string{"bin", "lib", "lib64"} {
		target, err := os.Readlink("/" + name)
		if err != nil {
			continue // a directory of its own, which Shared shows
		}
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// hostMount puts a volume at its place in a view and, as hcsshim does for
// programs of hosts without the bind filter, links to it from below C:\hpc.
func (s *Server) hostMount(id, view string, m *runtime.Mount) error {
	src, dst := m.GetHostPath(), m.GetContainerPath()
	switch {
	case m.GetImage().GetImage() != "":
		return invalid{fmt.Errorf("mount %q: image volumes are not supported on Windows", dst)}
	case winpath.KindOf(src) == winpath.Device:
		return errPipe
	case len(dst) == 2 && strings.EqualFold(dst, winpath.SystemDrive):
		return invalid{errors.New("destination path can not be C drive")}
	}
	f, info, err := s.openSource(src)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only a handle
	if err := s.bindIntoView(view, dst, f, info.IsDir(), m.GetReadonly()); err != nil {
		return fmt.Errorf("mount %q: %w", dst, err)
	}
	return s.linkBelowImage(id, src, dst)
}

// bindIntoView mounts what is open at a Windows path of a view. The place is made
// on the host if it does not exist.
func (s *Server) bindIntoView(view, at string, f *os.File, dir, readOnly bool) error {
	drive := filepath.Join(view, "drive_c")
	root, err := os.OpenRoot(drive)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // opened for look-ups
	rel, err := winpath.ResolveIn(root, at)
	if err != nil {
		return invalid{err}
	}
	if rel == "." {
		return invalid{errors.New("destination path can not be C drive")}
	}
	if _, err := root.Stat(rel); errors.Is(err, fs.ErrNotExist) {
		err = makeHostPlace(root, rel, dir)
		if err != nil {
			return err
		}
	}
	place, err := openBeneath(drive, rel)
	if err != nil {
		return err
	}
	defer func() { _ = place.Close() }() // only a handle
	if err := unix.Mount(handle(f), handle(place), "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if !readOnly {
		return nil
	}
	mounted, err := openBeneath(drive, rel) // what lies on the place now
	if err != nil {
		return err
	}
	defer func() { _ = mounted.Close() }() // only a handle
	return unix.MountSetattr(int(mounted.Fd()), "", unix.AT_EMPTY_PATH,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

func makeHostPlace(root *os.Root, rel string, dir bool) error {
	if dir {
		return root.MkdirAll(rel, 0o755)
	}
	if parent := path.Dir(rel); parent != "." {
		if err := root.MkdirAll(parent, 0o755); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(rel, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// linkBelowImage makes C:\hpc\DESTINATION a link to the volume. Like hcsshim, it
// does not insist.
func (s *Server) linkBelowImage(id, src, dst string) error {
	image, err := os.OpenRoot(s.dir(id, rootDir))
	if err != nil {
		return err
	}
	defer func() { _ = image.Close() }() // opened for look-ups
	host, err := os.OpenRoot(s.cfg.Drive)
	if err != nil {
		return err
	}
	defer func() { _ = host.Close() }() // opened for look-ups
	at, err := winpath.ResolveIn(image, dst)
	if err != nil || at == "." {
		return nil //nolint:nilerr // see above
	}
	to, err := winpath.ResolveIn(host, src)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	if dir := path.Dir(at); dir != "." {
		if err := image.MkdirAll(dir, 0o755); err != nil {
			return nil //nolint:nilerr // see above
		}
	}
	// From hpc/a/b to the drive's root it is as many steps as b has parents there.
	_ = image.Symlink(strings.Repeat("../", strings.Count(at, "/")+1)+to, at)
	return nil
}

// dropView takes a view down, complete or not.
func (s *Server) dropView(id string) error {
	view := s.view(id)
	if view == "" {
		return nil
	}
	if _, err := os.Lstat(view); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := errors.Join(unmountBelow(view), unmountRoot(view)); err != nil {
		return err
	}
	// Only the empty directory: whatever is still mounted there stays whole.
	if err := os.Remove(view); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove view of the host: %w", err)
	}
	return nil
}

// views lists the containers that have one.
func (s *Server) views() []string {
	if s.cfg.HostProcesses == nil {
		return nil
	}
	entries, err := os.ReadDir(s.cfg.HostProcesses.Views)
	if err != nil {
		return nil
	}
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids
}
