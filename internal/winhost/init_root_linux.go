// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/host"
)

// describeRoot lists the mounts of a host's root, in order. Only Config.Dir is
// both of the machine and writable.
func describeRoot(b boot) []host.Mount {
	c := b.Config
	return append(host.Base(filepath.Join(c.Cache, b.Runtime, "usr"), b.Cgroups),
		host.Mount{Source: "tmpfs", Target: viewsDir, Type: "tmpfs", Flags: host.Quiet, Data: "mode=700,size=1m"},
		// Where administrators of Docker hosts put the CAs of their registries.
		host.Mount{Source: "/etc/docker/certs.d", Target: certsDir, ReadOnly: true, Optional: true},
		host.Mount{Source: c.Cache, Target: cacheDir, ReadOnly: true},
		host.Mount{Source: c.Bin, Target: binDir, ReadOnly: true},
		// Alone, because the new root itself is mounted below it.
		host.Mount{Source: c.Dir, Target: nodeDir, Alone: true},
		host.Mount{Source: onOwnDisk(c, "cri"), Target: nodeDir + "/cri"},
		host.Mount{Source: onOwnDisk(c, "claims"), Target: imagesDir},
		host.Mount{
			Source: "overlay", Target: prefixDir, Type: "overlay", Flags: unix.MS_NODEV,
			Data: fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", filepath.Join(c.Cache, b.Prefix), upperDir(c),
				workDir(c)),
		},
	)
}

// onOwnDisk is a directory of the host's disk.
func onOwnDisk(c Config, elem ...string) string {
	return filepath.Join(append([]string{host.Disk(c.Dir)}, elem...)...)
}

func upperDir(c Config) string { return onOwnDisk(c, "prefix", "upper") }
func workDir(c Config) string  { return onOwnDisk(c, "prefix", "work") }

// shareViews lets later mounts for HostProcess containers appear in the mount
// namespaces of the host's Windows programs.
func shareViews() error {
	if err := unix.Mount("", viewsDir, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share %s: %w", viewsDir, err)
	}
	return nil
}

// shareState lets later mounts of volumes appear in the mount namespaces of the host's Windows programs. Volumes move
// between directories of the state directory, so it is one mount.
// Preconditions: the directory exists, and no program runs in the prefix.
func shareState() error {
	dir := onDisk(agent.StateDir)
	err := unix.Mount(dir, dir, "", unix.MS_BIND, "")
	if err == nil {
		err = unix.Mount("", dir, "", unix.MS_SHARED, "")
	}
	if err != nil {
		return fmt.Errorf("share %s: %w", dir, err)
	}
	return nil
}

// directories makes the directories that are mounted. The overlay's upper directory belongs
// to one template: over another one it would be a mixture of two Windows installations, so
// then the host starts over, as a reinstalled server does. Only the volumes of its claims stay, and images: those that
// were loaded could not be had again.
// Preconditions: the disk is mounted.
func directories(ctx context.Context, c Config, template string) error {
	if err := host.MoveIn(ctx, c.Dir, "prefix", "cri"); err != nil {
		return err
	}
	mark := onOwnDisk(c, "prefix", "template")
	old, err := os.ReadFile(mark)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read template of the host: %w", err)
	}
	former := onOwnDisk(c, "former-prefix")
	if err == nil && string(old) != template {
		for _, d := range []string{onOwnDisk(c, "cri", "state"), filepath.Join(c.Dir, "hns")} {
			if err := os.RemoveAll(d); err != nil {
				return fmt.Errorf("remove former installation: %w", err)
			}
		}
		if err := os.Rename(onOwnDisk(c, "prefix"), former); err != nil {
			return fmt.Errorf("put former installation aside: %w", err)
		}
	}
	if err := keepVolumes(former, upperDir(c)); err != nil {
		return err
	}
	for _, d := range []string{upperDir(c), workDir(c), onOwnDisk(c, "cri"), onOwnDisk(c, "claims")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("make host directory: %w", err)
		}
	}
	// C:\ itself is listable, as on Windows; the directory above is not.
	if err := os.Chmod(upperDir(c), 0o755); err != nil {
		return fmt.Errorf("make host directory: %w", err)
	}
	return os.WriteFile(mark, []byte(template), 0o600)
}

// keepVolumes moves the volumes of a former installation, if there is one, into the present one, and removes the rest.
// Both are on one file system. It may be repeated after an interruption.
func keepVolumes(former, upper string) error {
	const state = "drive_c/ProgramData/mullion" // agent.StateDir
	for _, name := range storage.Dirs() {
		from := filepath.Join(former, "upper", state, name)
		if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := makeLike(filepath.Join(former, "upper"), upper, state); err != nil {
			return fmt.Errorf("keep volumes: %w", err)
		}
		if err := os.Rename(from, filepath.Join(upper, state, name)); err != nil {
			return fmt.Errorf("keep volumes: %w", err)
		}
	}
	if err := os.RemoveAll(former); err != nil {
		return fmt.Errorf("remove former installation: %w", err)
	}
	return nil
}

// makeLike makes the directories of a path below to, with the modes and owners that they have below from: in an
// overlay, the upper directory's count.
func makeLike(from, to, path string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for elem := range strings.SplitSeq(path, "/") {
		from, to = filepath.Join(from, elem), filepath.Join(to, elem)
		var st unix.Stat_t
		if err := unix.Lstat(from, &st); err != nil {
			return &fs.PathError{Op: "lstat", Path: from, Err: err}
		}
		if err := os.Mkdir(to, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := os.Lchown(to, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
		if err := unix.Chmod(to, st.Mode&0o7777); err != nil {
			return &fs.PathError{Op: "chmod", Path: to, Err: err}
		}
	}
	return nil
}
