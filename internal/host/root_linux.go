// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/cgroup"
)

// Mount is one step of building a host's root file system. The steps are
// described before they are performed, so that a test can check the list.
type Mount struct {
	Source string // on the machine, or the name of a file system
	Target string // in the new root
	Type   string // "" binds Source, with everything mounted below it
	Flags  uintptr
	Data   string
	// ReadOnly makes a bind and all below it read-only.
	ReadOnly bool
	// Alone binds Source without the mounts below it.
	Alone bool
	// Optional sources may be missing.
	Optional bool
}

// link is a symbolic link in the new root.
type link struct{ target, name string }

// MachineUsr is the directory of the machine's programs.
const MachineUsr = "/usr"

// Flags of file systems that hold no devices, or no programs either.
const (
	Quiet = unix.MS_NOSUID | unix.MS_NODEV
	Inert = Quiet | unix.MS_NOEXEC
)

// Base lists the mounts that every host's root begins with, in order: the programs
// of the directory usr, read-only, and file systems of the host's own.
func Base(usr string, cgroups cgroup.Hierarchies) []Mount {
	ro := func(path string) Mount { return Mount{Source: path, Target: path, ReadOnly: true, Optional: true} }
	list := []Mount{
		{Source: "tmpfs", Target: "/", Type: "tmpfs", Flags: Quiet, Data: "mode=755,size=64m"},
		{Source: usr, Target: "/usr", ReadOnly: true},
	}
	if usr == MachineUsr {
		// Files outside of /usr that its programs use: the loader's cache, links of alternatives.
		list = append(list, ro("/etc/ld.so.cache"), ro("/etc/alternatives"))
	}
	list = append(list, []Mount{
		// Certificates of registries.
		ro("/etc/ssl"), ro("/etc/ca-certificates"), ro("/etc/pki"),
		ro("/etc/localtime"), {Source: "proc", Target: "/proc", Type: "proc", Flags: Inert},
		{Source: "sysfs", Target: "/sys", Type: "sysfs", Flags: Inert | unix.MS_RDONLY},
	}...)
	list = append(list, describeCgroups(cgroups)...)
	list = append(list, Mount{
		Source: "tmpfs",
		Target: "/dev",
		Type:   "tmpfs",
		Flags:  unix.MS_NOSUID,
		Data:   "mode=755,size=64k",
	})
	for _, d := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		list = append(list, Mount{Source: "/dev/" + d, Target: "/dev/" + d})
	}
	return append(list,
		Mount{
			Source: "devpts",
			Target: "/dev/pts",
			Type:   "devpts",
			Flags:  unix.MS_NOSUID | unix.MS_NOEXEC,
			Data:   "newinstance,ptmxmode=0666,mode=0620",
		},
		Mount{Source: "tmpfs", Target: "/dev/shm", Type: "tmpfs", Flags: Inert, Data: "mode=1777"},
		Mount{Source: "mqueue", Target: "/dev/mqueue", Type: "mqueue", Flags: Inert, Optional: true},
		Mount{Source: "tmpfs", Target: "/tmp", Type: "tmpfs", Flags: Quiet, Data: "mode=1777"},
		Mount{Source: "tmpfs", Target: "/run", Type: "tmpfs", Flags: Quiet, Data: "mode=755"},
	)
}

func describeCgroups(hs cgroup.Hierarchies) []Mount {
	if hs.Unified {
		return []Mount{{Source: "cgroup2", Target: cgroup.Mount, Type: "cgroup2", Flags: Inert}}
	}
	list := []Mount{{Source: "tmpfs", Target: cgroup.Mount, Type: "tmpfs", Flags: Inert, Data: "mode=755,size=64k"}}
	for _, h := range hs.List {
		m := Mount{
			Source: "cgroup",
			Target: filepath.Join(cgroup.Mount, h.Dir),
			Type:   "cgroup",
			Flags:  Inert,
			Data:   h.Options,
		}
		if h.V2() {
			m.Source, m.Type = "cgroup2", "cgroup2"
		}
		list = append(list, m)
	}
	return list
}

// Enter builds the root file system of a host from its mounts, and makes it the root of the process, which gets the
// host's name.
// Preconditions: the process is alone in its namespaces.
func Enter(c Config, mounts []Mount) error {
	root := RootDir(c.Dir)
	if err := buildRoot(mounts, links(mounts), root); err != nil {
		return err
	}
	if err := pivot(root); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(c.Name)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	return nil
}

// links lists the links of a root.
func links(mounts []Mount) []link {
	ofMachine := slices.ContainsFunc(mounts, func(m Mount) bool { return m.Target == "/usr" && m.Source == MachineUsr })
	return describeLinks(func(name string) (string, bool) {
		if !ofMachine {
			return "usr" + name, name != "/lib32" && name != "/libx32" // as in Debian's packages
		}
		target, err := os.Readlink(name)
		return target, err == nil
	})
}

// describeLinks lists the links of a root, given the links into its /usr.
func describeLinks(system func(name string) (target string, ok bool)) []link {
	links := []link{
		{"/proc/self/fd", "/dev/fd"}, {"/proc/self/fd/0", "/dev/stdin"}, {"/proc/self/fd/1", "/dev/stdout"},
		{"/proc/self/fd/2", "/dev/stderr"}, {"pts/ptmx", "/dev/ptmx"}, {"/run", "/var/run"}, {"/tmp", "/var/tmp"},
	}
	// /bin and its kind are links into /usr on every supported distribution.
	for _, name := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if target, ok := system(name); ok {
			links = append(links, link{target, name})
		}
	}
	return links
}

// buildRoot makes the root file system below dir.
func buildRoot(mounts []Mount, links []link, dir string) error {
	// Later mounts must not show on the machine.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separate mounts: %w", err)
	}
	for _, m := range mounts {
		if err := m.do(dir); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.Source, m.Target, err)
		}
	}
	for _, l := range links {
		name := filepath.Join(dir, l.name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return fmt.Errorf("make root: %w", err)
		}
		if err := os.Symlink(l.target, name); err != nil {
			return fmt.Errorf("make root: %w", err)
		}
	}
	return nil
}

func (m Mount) do(root string) error {
	target := filepath.Join(root, m.Target)
	if m.Type != "" {
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		err := unix.Mount(m.Source, target, m.Type, m.Flags, m.Data)
		if m.Optional && (errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EPERM)) {
			return nil
		}
		return err
	}
	st, err := os.Stat(m.Source)
	if m.Optional && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := MakeTarget(target, st.IsDir()); err != nil {
		return err
	}
	flags := uintptr(unix.MS_BIND | unix.MS_REC)
	if m.Alone {
		flags = unix.MS_BIND
	}
	if err := unix.Mount(m.Source, target, "", flags, ""); err != nil {
		return err
	}
	if !m.ReadOnly {
		return nil
	}
	// MS_REMOUNT would leave mounts below writable (mount_setattr(2), Linux 5.12).
	return unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// MakeTarget makes a mount point, a directory or a file.
func MakeTarget(target string, dir bool) error {
	if dir {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// pivot makes dir the root of the namespace and lets go of the old one.
func pivot(dir string) error {
	if err := unix.Chdir(dir); err != nil {
		return fmt.Errorf("enter new root: %w", err)
	}
	// The old root is stacked on the new one and taken off again: no directory
	// is needed for it (pivot_root(2), "pivot_root(".", ".")").
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the old root: %w", err)
	}
	return unix.Chdir("/")
}
