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
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// The two trees of a ContainerRoot and an AccountLayer. Programs of Windows see
// the first only.
const (
	driveTree = "drive_c" // the content of drive C:
	linuxTree = "linux"   // the root directory of the Linux processes: the prefix, /etc, places for mounts
)

// ContainerRoot returns the directory of the read-only trees that containers of
// a build begin with: drive C:, and the files that Wine needs beside it. It is
// built on first use.
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
	for _, a := range Accounts() {
		if _, err := r.AccountLayer(ctx, a); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// AccountLayer returns the overlayfs layer of drive C: that goes on top of an
// image's own: the account's profile. It is built on first use.
func (r *Runtime) AccountLayer(ctx context.Context, a Account) (string, error) {
	dir, err := r.accountTrees(ctx, a)
	return filepath.Join(dir, driveTree), err
}

// accountTrees returns the directory of an account's two trees: its profile for
// drive C:, and the Linux side's registry of the account and the prefix as its
// property, without which Wine does not start.
func (r *Runtime) accountTrees(ctx context.Context, a Account) (string, error) {
	dir := filepath.Join(r.cacheDir, fmt.Sprintf("account-%d-%s", a.GID, r.hash))
	err := once(ctx, dir, func(tmp string) error {
		base, err := r.base(ctx)
		if err != nil {
			return err
		}
		return makeAccount(base, tmp, a)
	})
	if err != nil {
		return "", fmt.Errorf("build profile of %s: %w", a.Name, err)
	}
	return dir, nil
}

// ContainerLayers returns the overlayfs layers of drive C: that go below an
// image's own, lowest first.
func (r *Runtime) ContainerLayers(ctx context.Context, build winver.Build) ([]string, error) {
	root, err := r.ContainerRoot(ctx, build)
	if err != nil {
		return nil, err
	}
	return []string{filepath.Join(root, driveTree)}, nil
}

// LinuxLayers returns the overlayfs layers, lowest first, of the root directory
// of a container's Linux processes. Drive C: is mounted in it at ContainerDrive.
func (r *Runtime) LinuxLayers(ctx context.Context, build winver.Build, a Account) ([]string, error) {
	root, err := r.ContainerRoot(ctx, build)
	if err != nil {
		return nil, err
	}
	account, err := r.accountTrees(ctx, a)
	if err != nil {
		return nil, err
	}
	return []string{r.Dir, filepath.Join(root, linuxTree), filepath.Join(account, linuxTree)}, nil
}

// makeRoot fills a ContainerRoot.
func (r *Runtime) makeRoot(base, dir string, changes []change) error {
	drive, linux := filepath.Join(dir, driveTree), filepath.Join(dir, linuxTree)
	if err := shareTree(filepath.Join(base, "drive_c"), drive, containerUser); err != nil {
		return err
	}
	if err := makeLinuxTree(base, linux, changes); err != nil {
		return err
	}
	if err := r.hidePrograms(linux); err != nil {
		return err
	}
	for _, tree := range []string{drive, filepath.Join(linux, containerPrefix)} {
		if err := r.own(tree); err != nil {
			return err
		}
	}
	return openTree(drive)
}

// makeLinuxTree makes the prefix, /etc and the places for mounts.
func makeLinuxTree(base, dir string, changes []change) error {
	prefix := filepath.Join(dir, containerPrefix)
	for _, d := range []string{
		filepath.Join(prefix, "dosdevices"),
		filepath.Join(dir, "run", "user"),
		// Places for mounts.
		filepath.Join(dir, "proc"), filepath.Join(dir, "sys"), filepath.Join(dir, "dev"), filepath.Join(dir, StatusDir),
		filepath.Join(dir, ContainerDrive),
	} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("../drive_c", filepath.Join(prefix, "dosdevices", "c:")); err != nil {
		return err
	}
	if err := writeRegistry(base, prefix, containerUser, changes); err != nil {
		return err
	}
	for name, content := range containerEtc() {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, "etc", name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "etc", name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// hidePrograms hides the programs among Wine's modules: Wine would take one that
// lies there before a file of the same name in System32, be it an image's
// (dlls/ntdll/unix/loader.c, load_builtin). In System32 the prefix has each of them.
func (r *Runtime) hidePrograms(linux string) error {
	programs, err := filepath.Glob(filepath.Join(r.Dir, pePath, "*.exe"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(linux, pePath), 0o755); err != nil {
		return err
	}
	for _, p := range programs {
		// A whiteout of overlayfs is a character device with the number 0.
		if err := unix.Mknod(filepath.Join(linux, pePath, filepath.Base(p)), unix.S_IFCHR, 0); err != nil {
			return fmt.Errorf("hide %s: %w", filepath.Base(p), err)
		}
	}
	return nil
}

// openTree gives the directories that ordinary users may write to on Windows
// the permissions that come nearest: all users make files and directories in them,
// and only their owner changes or removes them. Profiles are closed.
func openTree(dir string) error {
	// The access rights of Windows: icacls of the directories of
	// mcr.microsoft.com/windows/servercore, as inherited from drive C's root.
	for _, d := range []string{"ProgramData", "windows/temp", "users/Public", "windows/tasks"} {
		err := filepath.WalkDir(filepath.Join(dir, d), func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return err
			}
			return os.Chmod(path, 0o777|fs.ModeSticky)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Chmod(filepath.Join(dir, "users", containerUser), 0o700)
}

// onDisk returns a Windows path as the container root spells it.
func onDisk(dir, path string) string {
	path = strings.ReplaceAll(strings.TrimPrefix(path, `C:\`), `\`, "/")
	for _, d := range []string{"Users", "Windows"} {
		if rest, ok := strings.CutPrefix(path, d+"/"); ok {
			path = strings.ToLower(d) + "/" + rest
		}
	}
	return filepath.Join(dir, path)
}

// makeAccount fills the trees of an account.
func makeAccount(base, dir string, a Account) error {
	uid, gid := int(a.UID), int(a.GID)
	drive, linux := filepath.Join(dir, driveTree), filepath.Join(dir, linuxTree)
	profile := onDisk(drive, a.Profile)
	if err := shareTree(filepath.Join(base, "drive_c", "users", hostUser), profile, ""); err != nil {
		return err
	}
	prefix := filepath.Join(linux, containerPrefix)
	owned := []string{
		prefix,
		// Where Wine's server has its socket (Debian's patch); without it, in /tmp.
		filepath.Join(linux, "run", "user", fmt.Sprint(uid)),
		filepath.Join(profile, "AppData", "Local", "Temp"),
	}
	for _, d := range owned {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	h, err := readHive(filepath.Join(base, "user.reg"))
	if err != nil {
		return err
	}
	h.apply([]change{
		{key: "Environment", values: []value{{"TEMP", a.Temp}, {"TMP", a.Temp}}},
		{key: "Volatile Environment", remove: true}, // made at each start
	})
	if err := os.WriteFile(filepath.Join(prefix, "user.reg"), moveProfile(h.bytes(), a.Profile), 0o644); err != nil {
		return err
	}
	for _, tree := range []string{prefix, profile, owned[1]} {
		err := filepath.WalkDir(tree, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, uid, gid)
		})
		if err != nil {
			return err
		}
	}
	// The directories between stay the administrators'.
	for d := filepath.Dir(profile); d != drive; d = filepath.Dir(d) {
		if err := os.Lchown(d, ContainerUID, ContainerGID); err != nil {
			return err
		}
	}
	return os.Chmod(profile, 0o700)
}

// containerEtc returns the files that the C library behind Wine reads. The CRI
// server mounts resolv.conf and hosts.
func containerEtc() map[string]string {
	var passwd, group string
	for _, a := range Accounts() {
		name := strings.ReplaceAll(a.Name, " ", "")
		passwd += fmt.Sprintf("%s:x:%d:%d::/nonexistent:/\n", name, a.UID, a.GID)
		group += fmt.Sprintf("%s:x:%d:\n", name, a.GID)
	}
	return map[string]string{
		"passwd":        passwd,
		"group":         group,
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
		"resolv.conf":   "",
		// fontconfig complains on standard error if it has no configuration. The
		// fonts are Windows' own, which Wine finds by itself.
		"fonts/fonts.conf": `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM ` +
			`"urn:fontconfig:fonts.dtd"><fontconfig><cachedir>/nonexistent</cachedir></fontconfig>` + "\n",
		"hosts": "127.0.0.1 localhost\n::1 localhost\n",
	}
}

// own gives the tree to the container's user, who on Windows may write nearly
// everywhere. Modules stay links to the runtime's files, and read-only like the
// modules that Windows protects.
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

// unshare replaces a hard link by a separate file.
func unshare(path string) error {
	tmp := path + ".tmp"
	if err := copyFile(path, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
