// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hostprocess

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/engine"
	"github.com/mullion-k8s/mullion/internal/cri/mount"
	"github.com/mullion-k8s/mullion/internal/winsys/winpath"
)

// A HostProcess container sees the host's drive C with the image's files at
// C:\hpc and its volumes at their places, which no other program of the host
// sees: Windows' bind filter does that for a silo. Here the container has its own
// prefix, the view: the host's, mounted a second time, with the rest on top. Wine
// identifies prefixes by device and inode, so that the container's programs find
// the host's wineserver; and it opens files by the client's path, so that
// wineserver looks into the view.

// errPipe has the words of hcsshim.
var errPipe = errors.New("named pipe mounts not supported for job containers - interact with the pipe directly")

// Make makes the view of a container, with the volumes, and its root directory on
// the Linux side.
func (h *Host) Make(c engine.HostContainer) error {
	view := h.view(c.ID)
	if err := os.MkdirAll(view, 0o700); err != nil {
		return fmt.Errorf("create view of the host: %w", mount.WithoutPath(err))
	}
	if err := h.mountView(view); err != nil {
		return fmt.Errorf("create view of the host: %w", mount.WithoutPath(err))
	}
	image, err := os.Open(c.Image)
	if err != nil {
		return fmt.Errorf("bind image to %s: %w", imageRoot, mount.WithoutPath(err))
	}
	defer func() { _ = image.Close() }() // only a handle
	if _, err := bindIntoView(view, imageRoot, image, true); err != nil {
		return fmt.Errorf("bind image to %s: %w", imageRoot, mount.WithoutPath(err))
	}
	if err := h.mountVolumes(c, view); err != nil {
		return err
	}
	if err := makeLinuxRoot(c); err != nil {
		return fmt.Errorf("create view of the host: %w", mount.WithoutPath(err))
	}
	return nil
}

// mountVolumes puts the volumes at their places. They become read-only at the end: a volume
// may be inside another one, where its place may have to be made.
func (h *Host) mountVolumes(c engine.HostContainer, view string) error {
	mounts, err := mount.InOrder(c.Mounts)
	if err != nil {
		return err
	}
	var readOnly []string
	for _, m := range mounts {
		place, err := h.mountVolume(c.Image, view, m)
		if err != nil {
			return err
		}
		if m.GetReadonly() {
			readOnly = append(readOnly, place)
		}
	}
	for _, place := range readOnly {
		if err := closeVolume(view, place); err != nil {
			return fmt.Errorf("mount read-only: %w", mount.WithoutPath(err))
		}
	}
	return nil
}

// mountView mounts the host's prefix and the programs that are mounted in it. The disks of volumes, which are
// directories, stay out: taking them down with the view would take them down everywhere.
func (h *Host) mountView(view string) error {
	// Shared or not as the directory of views is: wineserver must see it too.
	if err := unix.Mount(h.Wine.Prefix, view, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	mounts, err := mount.Below(h.Wine.Prefix)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		st, err := os.Lstat(m)
		if err != nil || !st.Mode().IsRegular() {
			continue // a disk, or gone meanwhile
		}
		place := filepath.Join(view, strings.TrimPrefix(m, h.Wine.Prefix))
		if err := unix.Mount(m, place, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m, err)
		}
	}
	return nil
}

// makeLinuxRoot makes the status directory, and the links that distributions
// have at the root.
func makeLinuxRoot(c engine.HostContainer) error {
	for _, d := range []string{c.Root, c.Status} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	for _, name := range []string{"bin", "lib", "lib64"} {
		target, err := os.Readlink("/" + name)
		if err != nil {
			continue // a separate directory, which Shared shows
		}
		if err := os.Symlink(target, filepath.Join(c.Root, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// mountVolume puts a volume at its place in a view, which it returns, and, as hcsshim does
// for programs of hosts without the bind filter, links to it from below C:\hpc.
func (h *Host) mountVolume(image, view string, m *runtime.Mount) (place string, err error) {
	src, dst := m.GetHostPath(), m.GetContainerPath()
	switch {
	case m.GetImage().GetImage() != "":
		return "", mount.Invalid{Err: fmt.Errorf("mount %q: image volumes are not supported on Windows", dst)}
	case winpath.KindOf(src) == winpath.Device:
		return "", errPipe
	case len(dst) == 2 && strings.EqualFold(dst, winpath.SystemDrive):
		return "", mount.Invalid{Err: errors.New("destination path can not be C drive")}
	}
	f, info, err := mount.OpenSource(h.Drive, src)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only a handle
	if place, err = bindIntoView(view, dst, f, info.IsDir()); err != nil {
		return "", fmt.Errorf("mount %q: %w", dst, mount.WithoutPath(err))
	}
	if err := h.linkBelowImage(image, src, dst); err != nil {
		return "", fmt.Errorf("mount %q: %w", dst, mount.WithoutPath(err))
	}
	return place, nil
}

// bindIntoView mounts an open file at a Windows path of a view, and returns its path on drive
// C. The place is made, on the host or in the volume that is mounted there, if it does not
// exist.
func bindIntoView(view, at string, f *os.File, dir bool) (string, error) {
	drive := driveOf(view)
	root, err := os.OpenRoot(drive)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }() // opened for look-ups
	rel, err := winpath.ResolveIn(root, at)
	if err != nil {
		return "", mount.Invalid{Err: err}
	}
	if rel == "." {
		return "", mount.Invalid{Err: errors.New("destination path can not be C drive")}
	}
	info, err := root.Stat(rel)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makePlace(root, rel, dir); err != nil {
			return "", err
		}
	} else if err == nil && info.IsDir() != dir {
		return "", mount.Invalid{Err: mount.ErrOtherKind}
	}
	place, err := mount.OpenBeneath(drive, rel)
	if err != nil {
		return "", err
	}
	defer func() { _ = place.Close() }() // only a handle
	return rel, unix.Mount(mount.Handle(f), mount.Handle(place), "", unix.MS_BIND, "")
}

// closeVolume makes a volume in a view read-only.
func closeVolume(view, place string) error {
	mounted, err := mount.OpenBeneath(driveOf(view), place)
	if err != nil {
		return err
	}
	defer func() { _ = mounted.Close() }() // only a handle
	return unix.MountSetattr(int(mounted.Fd()), "", unix.AT_EMPTY_PATH,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

func makePlace(root *os.Root, rel string, dir bool) error {
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
func (h *Host) linkBelowImage(imageDir, src, dst string) error {
	image, err := os.OpenRoot(imageDir)
	if err != nil {
		return err
	}
	defer func() { _ = image.Close() }() // opened for look-ups
	host, err := os.OpenRoot(h.Drive)
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

// Remove takes the view of a container down, complete or not.
func (h *Host) Remove(id string) error {
	view := h.view(id)
	if _, err := os.Lstat(view); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := errors.Join(mount.UnmountBelow(view), mount.Unmount(view)); err != nil {
		return err
	}
	// Only the empty directory: whatever is still mounted there stays whole.
	if err := os.Remove(view); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove view of the host: %w", err)
	}
	return nil
}

// Containers lists the IDs of the containers that have a view.
func (h *Host) Containers() []string {
	entries, err := os.ReadDir(h.Views)
	if err != nil {
		return nil
	}
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids
}
