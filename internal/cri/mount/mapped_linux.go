// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package mount

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// IDMap is a line of /proc/PID/uid_map: Count user IDs of a mounted file system, from Inside on,
// appear as the IDs from Outside on.
type IDMap struct{ Inside, Outside, Count int }

// mapping is an open user namespace, which the kernel takes to map the ids of a mount.
type mapping struct{ file *os.File }

// newMapping makes a user namespace with these maps of user IDs. Group IDs stay as they are.
func newMapping(users []IDMap) (_ *mapping, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("map user IDs: %w", err)
		}
	}()
	var uids []syscall.SysProcIDMap
	for _, m := range users {
		uids = append(uids, syscall.SysProcIDMap{ContainerID: m.Inside, HostID: m.Outside, Size: m.Count})
	}
	// A process holds the namespace until the file is open. It stops before its first
	// instruction (PTRACE_TRACEME), so it does not matter which program it is. Only the thread
	// that began to trace it may wait for it.
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	p, err := os.StartProcess("/proc/self/exe", []string{"user-namespace"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: uids,
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1 << 16}},
		Ptrace:      true,
		Pdeathsig:   syscall.SIGKILL,
	}})
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(p.Pid), "ns/user"))
	killErr := p.Kill()
	_, waitErr := p.Wait()
	if err := errors.Join(err, killErr, waitErr); err != nil {
		if f != nil {
			_ = f.Close() // only a handle
		}
		return nil, err
	}
	return &mapping{f}, nil
}

func (m *mapping) close() { _ = m.file.Close() } // only a handle

// mount mounts a directory at a place, read-only and with its ids mapped. The place is private.
func (m *mapping) mount(dir, place string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return &os.PathError{Op: "open_tree", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(fd) }() // only a handle
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set:    unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_RDONLY,
		Propagation: unix.MS_PRIVATE,
		Userns_fd:   uint64(m.file.Fd()),
	})
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("mount %s with other user IDs: the file system does not support it "+
			"(Linux 5.19 or newer, ext4, XFS or Btrfs do): %w", dir, err)
	}
	if err != nil {
		return &os.PathError{Op: "mount_setattr", Path: dir, Err: err}
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, place, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return &os.PathError{Op: "move_mount", Path: place, Err: err}
	}
	return nil
}

// Mapped mounts layers below a new directory of parent, in their order, with the ids of a
// sandbox. release takes them down; a mount that was made of them keeps its own.
func Mapped(parent string, layers []string, users []IDMap) (mapped []string, release func() error, err error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp(parent, "") // short: all names must fit into the options of one mount
	if err != nil {
		return nil, nil, err
	}
	release = func() error { return releaseMapped(dir) }
	defer func() {
		if err != nil {
			err = errors.Join(err, release())
		}
	}()
	m, err := newMapping(users)
	if err != nil {
		return nil, nil, err
	}
	defer m.close()
	for i, l := range layers {
		place := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(place, 0o700); err != nil {
			return nil, nil, err
		}
		if err := m.mount(l, place); err != nil {
			return nil, nil, err
		}
		mapped = append(mapped, place)
	}
	return mapped, release, nil
}

// releaseMapped takes down the mounts of Mapped. It never removes a directory that is
// not empty: that would be a layer.
func releaseMapped(dir string) error {
	if err := UnmountBelow(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := syscall.Rmdir(filepath.Join(dir, e.Name())); err != nil {
			return &os.PathError{Op: "rmdir", Path: filepath.Join(dir, e.Name()), Err: err}
		}
	}
	if err := syscall.Rmdir(dir); err != nil {
		return &os.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// TidyMapped takes down the mounts of a killed server below parent.
func TidyMapped(parent string) error {
	entries, err := os.ReadDir(parent)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := releaseMapped(filepath.Join(parent, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
