// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/wine/launch"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// The accounts of hosts and containers, by the names that Windows gives them.
const (
	hostUser      = "Administrator"
	containerUser = "ContainerAdministrator"
)

// HostPrefix returns the directory of the template prefix for hosts of a
// build: a WINEPREFIX to put under an overlay, not to run in. It is built on
// first use; the first of all builds takes seconds (Wine fills a prefix), every
// further one tenths of a second.
func (r *Runtime) HostPrefix(ctx context.Context, build winver.Build) (string, error) {
	dir := filepath.Join(r.cacheDir, fmt.Sprintf("prefix-%d.%d-%s", build.Number, build.UBR, r.hash))
	err := once(ctx, dir, func(tmp string) error {
		base, err := r.base(ctx)
		if err != nil {
			return err
		}
		r.log.InfoContext(ctx, "build host prefix", logkey.Build, build.String(), logkey.Path, dir)
		return makePrefix(base, tmp, hostUser, append(buildChanges(build), hostChanges()...))
	})
	if err != nil {
		return "", fmt.Errorf("build host prefix %s: %w", build.Label(), err)
	}
	return dir, nil
}

// base returns the prefix that all others are made of: the prefix of Wine's own
// wineboot, cleaned of every trace of this machine.
func (r *Runtime) base(ctx context.Context) (string, error) {
	dir := filepath.Join(r.cacheDir, "base-"+r.hash)
	err := once(ctx, dir, func(tmp string) error {
		r.log.InfoContext(ctx, "fill Wine prefix", logkey.Path, dir)
		err := r.boot(ctx, tmp)
		if err != nil && ctx.Err() == nil {
			// Seen once on a machine with much to do: Wine did not find kernel32.dll in its own directory.
			r.log.WarnContext(ctx, "Wine prefix not filled, trying again", logkey.Error, err)
			if err := errors.Join(os.RemoveAll(tmp), os.Mkdir(tmp, 0o755)); err != nil {
				return err
			}
			err = r.boot(ctx, tmp)
		}
		if err != nil {
			return err
		}
		if err := r.complete(tmp); err != nil {
			return err
		}
		return r.check(ctx, tmp)
	})
	if err != nil {
		return "", fmt.Errorf("fill Wine prefix: %w", err)
	}
	return dir, nil
}

// boot runs wineboot in dir.
func (r *Runtime) boot(ctx context.Context, dir string) error {
	if err := r.runInit(ctx, "-fill-prefix", dir); err != nil {
		return fmt.Errorf("wineboot: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "system.reg")); err != nil {
		return fmt.Errorf("wineboot left no registry: %w", err)
	}
	return nil
}

// runInit has mullion-init run Wine's programs in the prefix dir. When it returns, none of them runs any more. It needs
// root, for the namespaces.
func (r *Runtime) runInit(ctx context.Context, mode, dir string, args ...string) error {
	env := append(Host{Runtime: "/", Prefix: launch.FilledPrefix}.Env(),
		"HOME=/tmp", "XDG_RUNTIME_DIR=/tmp",
		// wineboot would offer to download these.
		"WINEDLLOVERRIDES=mscoree,mshtml=;winemenubuilder.exe=d",
	)
	// Wine's services keep the standard error open after wineboot has ended; a
	// pipe would be waited for until they leave, so the output goes to a file.
	out, err := os.CreateTemp("", "mullion-wine-*")
	if err != nil {
		return err
	}
	defer func() { _, _ = out.Close(), os.Remove(out.Name()) }() // only read below
	cmd := exec.CommandContext(ctx, filepath.Join(r.Dir, InitPath), append([]string{mode, r.Dir, dir}, args...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS}
	err = cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		text, _ := os.ReadFile(out.Name()) // as much as was written
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(text))
	}
	return nil
}

// check checks whether winemend.dll fits Wine, in a prefix that is made of base.
func (r *Runtime) check(ctx context.Context, base string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("check Wine: %w", err)
		}
	}()
	dir := base + "-check"
	if err := os.RemoveAll(dir); err != nil { // of an interrupted run
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := makePrefix(base, dir, containerUser, nil); err != nil {
		return err
	}
	err = r.runInit(ctx, "-check-wine", dir, strconv.Itoa(ContainerGID))
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == launch.ExitUnfit {
		return &UnfitError{err}
	}
	return err
}

// UnfitError is the error of HostPrefix and ContainerRoot for a Wine that is not the one of native/packages.txt.
type UnfitError struct{ Err error }

func (e *UnfitError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnfitError) Unwrap() error { return e.Err }

// complete changes what wineboot has left in dir.
func (r *Runtime) complete(dir string) error {
	// Place holders of a program that the runtime does not have.
	for _, name := range []string{"explorer.exe", "system32/explorer.exe"} {
		if err := os.Remove(filepath.Join(dir, "drive_c", "windows", name)); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, name := range fonts() {
		// Wine looks into its own directory too, but not where drive C: is the root.
		if err := link(filepath.Join(r.Dir, fontPath, name),
			filepath.Join(dir, "drive_c", "windows", "Fonts", name)); err != nil {
			return err
		}
	}
	if err := showDotFiles(filepath.Join(dir, "user.reg")); err != nil {
		return err
	}
	if err := writeHosts(filepath.Join(dir, "drive_c", "windows", "system32", "drivers", "etc")); err != nil {
		return err
	}
	return r.clean(dir)
}

// showDotFiles changes the user's hive: Wine hides files whose name begins with a dot, Windows does not.
func showDotFiles(file string) error {
	h, err := readHive(file)
	if err != nil {
		return err
	}
	h.apply([]change{{key: `Software\Wine`, values: []value{{"ShowDotFiles", "Y"}}}})
	return os.WriteFile(file, h.bytes(), 0o600)
}

// defaultHosts has no entries, like the file that Windows comes with
// (support.microsoft.com, "How to reset the Hosts file back to the default"):
// localhost is known without it. Names are looked up in /etc/hosts of the Linux
// side.
const defaultHosts = "# Addresses of hosts, one to a line: the address, blanks, the host's name.\r\n" +
	"# What follows a '#' is a comment.\r\n" +
	"#\r\n" +
	"# localhost name resolution is handled within DNS itself.\r\n" +
	"#\t127.0.0.1       localhost\r\n" +
	"#\t::1             localhost\r\n"

func writeHosts(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "hosts"), []byte(defaultHosts), 0o644)
}

// clean removes the parts that Wine took from this machine (links to the home
// directory, drives, serial ports) and replaces copies of modules by hard links.
func (r *Runtime) clean(dir string) error {
	drives := filepath.Join(dir, "dosdevices")
	if err := os.RemoveAll(drives); err != nil {
		return err
	}
	if err := os.Mkdir(drives, 0o755); err != nil {
		return err
	}
	if err := os.Symlink("../drive_c", filepath.Join(drives, "c:")); err != nil {
		return err
	}
	// The time in this file decides whether Wine updates the prefix.
	if err := os.WriteFile(filepath.Join(dir, ".update-timestamp"), []byte("disable\n"), 0o644); err != nil {
		return err
	}
	modules := filepath.Join(r.Dir, pePath)
	return filepath.WalkDir(filepath.Join(dir, "drive_c"), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case e.Type()&fs.ModeSymlink != 0: // Documents and the like
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o755)
		case e.Type().IsRegular():
			return shareModule(path, filepath.Join(modules, e.Name()))
		}
		return nil
	})
}

// shareModule replaces the file by a hard link to the module if both have the
// same content. A prefix is then a few megabytes instead of hundreds.
func shareModule(path, module string) error {
	same, err := sameContent(path, module)
	if err != nil || !same {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return link(module, path)
}

func sameContent(a, b string) (bool, error) {
	infoB, err := os.Stat(b)
	if os.IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	infoA, err := os.Stat(a)
	if err != nil || infoA.Size() != infoB.Size() {
		return false, err
	}
	dataA, err := os.ReadFile(a)
	if err != nil {
		return false, err
	}
	dataB, err := os.ReadFile(b)
	if err != nil {
		return false, err
	}
	return bytes.Equal(dataA, dataB), nil
}

// makePrefix derives a prefix from the base: files are shared, the registry is
// its own.
func makePrefix(base, dir, user string, changes []change) error {
	if err := shareTree(filepath.Join(base, "drive_c"), filepath.Join(dir, "drive_c"), user); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "dosdevices"), 0o755); err != nil {
		return err
	}
	if err := os.Symlink("../drive_c", filepath.Join(dir, "dosdevices", "c:")); err != nil {
		return err
	}
	return writeRegistry(base, dir, user, changes)
}

// writeRegistry writes the three registry files and the marker that keeps Wine
// from updating them.
func writeRegistry(base, dir, user string, changes []change) error {
	for _, name := range []string{"user.reg", "userdef.reg"} {
		data, err := os.ReadFile(filepath.Join(base, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), renameUser(data, hostUser, user), 0o644); err != nil {
			return err
		}
	}
	h, err := readHive(filepath.Join(base, "system.reg"))
	if err != nil {
		return err
	}
	h.apply(changes)
	if err := os.WriteFile(filepath.Join(dir, "system.reg"), renameUser(h.bytes(), hostUser, user), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, ".update-timestamp"), []byte("disable\n"), 0o644)
}

// shareTree repeats a tree with hard links. The account's profile takes the
// user's name.
func shareTree(from, to, user string) error {
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if rest, ok := strings.CutPrefix(rel+"/", "users/"+hostUser+"/"); ok {
			rel = filepath.Join("users", user, rest)
		}
		target := filepath.Join(to, rel)
		if e.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		return link(path, target)
	})
	if err != nil {
		return err
	}
	return hide(filepath.Join(to, "ProgramData"))
}

// hide gives a directory the attribute "hidden", as Wine stores it. A file system
// without extended attributes shows it.
func hide(dir string) error {
	err := unix.Setxattr(dir, "user.DOSATTRIB", []byte("0x2"), 0)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return fmt.Errorf("hide %s: %w", dir, err)
}
