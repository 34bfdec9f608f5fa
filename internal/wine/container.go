// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// ContainerUID and ContainerGID own a container's files and run its processes.
// They are no account of the machine: above the range for system accounts and
// for people (1000-60000) and below nobody (65534), from the range that
// Debian's policy (9.2.2) leaves to local use by arrangement.
const (
	ContainerUID = 64000
	ContainerGID = 64000
)

// ContainerRoot returns the directory of the read-only tree that holds the
// Windows side of a container's C: drive: windows, users, Program Files, and
// the Wine prefix in .wine. It is built on first use.
func (r *Runtime) ContainerRoot(ctx context.Context, build winver.Build) (string, error) {
	dir := filepath.Join(r.cacheDir, fmt.Sprintf("croot-%d.%d-%s", build.Number, build.UBR, r.hash))
	err := once(ctx, dir, func(tmp string) error {
		base, err := r.base(ctx)
		if err != nil {
			return err
		}
		r.log.InfoContext(ctx, "build container root", logkey.Build, build.String(), logkey.Path, dir)
		return r.makeRoot(base, tmp, append(buildChanges(build), containerChanges()...))
	})
	if err != nil {
		return "", fmt.Errorf("build container root %s: %w", build.Label(), err)
	}
	return dir, nil
}

// ContainerLayers returns the overlayfs layers that go below an image's own,
// lowest first.
func (r *Runtime) ContainerLayers(ctx context.Context, build winver.Build) ([]string, error) {
	root, err := r.ContainerRoot(ctx, build)
	if err != nil {
		return nil, err
	}
	return []string{r.Dir, root}, nil
}

// makeRoot lays a prefix out as a root directory: drive C: is /.
func (r *Runtime) makeRoot(base, dir string, changes []change) error {
	if err := shareTree(filepath.Join(base, "drive_c"), dir, containerUser); err != nil {
		return err
	}
	prefix := filepath.Join(dir, ".wine")
	for _, d := range []string{
		filepath.Join(prefix, "dosdevices"), filepath.Join(dir, "etc"),
		// Where Wine's server has its socket (Debian's patch); without it, in /tmp.
		filepath.Join(dir, "run", "user", fmt.Sprint(ContainerUID)),
		// Places for mounts.
		filepath.Join(dir, "proc"), filepath.Join(dir, "sys"), filepath.Join(dir, "dev"), filepath.Join(dir, "run", "mullion"),
	} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("/", filepath.Join(prefix, "dosdevices", "c:")); err != nil {
		return err
	}
	if err := writeRegistry(base, prefix, containerUser, changes); err != nil {
		return err
	}
	for name, content := range containerEtc() {
		if err := os.WriteFile(filepath.Join(dir, "etc", name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return r.own(dir)
}

// containerEtc are the files that the C library behind Wine reads. The CRI
// server mounts resolv.conf and hosts.
func containerEtc() map[string]string {
	return map[string]string{
		"passwd":        fmt.Sprintf("%s:x:%d:%d::/nonexistent:/\n", containerUser, ContainerUID, ContainerGID),
		"group":         fmt.Sprintf("%s:x:%d:\n", containerUser, ContainerGID),
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
		"resolv.conf":   "",
		"hosts":         "127.0.0.1 localhost\n::1 localhost\n",
	}
}

// own gives the tree to the container's user, who on Windows may write nearly
// everywhere. Modules stay what they are, links to the runtime's files, and
// read-only as those that Windows protects.
func (r *Runtime) own(dir string) error {
	modules := filepath.Join(r.Dir, pePath)
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.Type().IsRegular() {
			shared, err := sameFile(path, filepath.Join(modules, e.Name()))
			if err != nil || shared {
				return err
			}
			if err := unshare(path); err != nil {
				return err
			}
		}
		return os.Lchown(path, ContainerUID, ContainerGID)
	})
}

func sameFile(a, b string) (bool, error) {
	infoB, err := os.Lstat(b)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	infoA, err := os.Lstat(a)
	return err == nil && os.SameFile(infoA, infoB), err
}

// unshare replaces a hard link by a file of its own.
func unshare(path string) error {
	tmp := path + ".tmp"
	if err := copyFile(path, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
