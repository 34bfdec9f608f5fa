// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/mount"
	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/winsys/winpath"
)

// windowsHosts is where Windows has its hosts file, and the kubelet mounts its
// own; Wine uses the C library, which reads another one.
const windowsHosts = "/windows/system32/drivers/etc/hosts"

// mounts resolves the mounts of a request and makes the places for them in the
// container's root. p is the container's main process.
// Preconditions: the root is mounted.
func (s *Server) mounts(c *store.Container, sb store.Sandbox, p oci.Process) ([]oci.Mount, error) {
	drive, err := os.OpenRoot(s.dir(c.ID, rootDir))
	if err != nil {
		return nil, fmt.Errorf("open drive C of the container: %w", mount.WithoutPath(err))
	}
	at := places{drive: drive}
	defer at.close()
	requests, err := mount.InOrder(c.Config.GetMounts())
	if err != nil {
		return nil, err
	}
	var out []oci.Mount
	hosts := s.hostsFile(sb.ID)
	for i, m := range requests {
		volume, err := s.mount(&at, m, s.dir(c.ID, mountsDir, strconv.Itoa(i)), sb)
		if err != nil {
			return nil, err
		}
		if strings.EqualFold(volume.Destination, windowsHosts) {
			hosts = volume.Source
		}
		volume.Destination = slash(s.cfg.Engine.Drive(), volume.Destination)
		out = append(out, volume)
	}
	linux, err := s.linuxMounts(c, sb, p, hosts)
	return append(linux, out...), err
}

// linuxMounts lists the mounts of the Linux side: its own files and drive C.
func (s *Server) linuxMounts(c *store.Container, sb store.Sandbox, p oci.Process, hosts string) ([]oci.Mount, error) {
	status := s.dir(c.ID, statusDir)
	if err := s.makeStatusDir(status, p); err != nil {
		return nil, err
	}
	out := []oci.Mount{
		{Source: status, Destination: s.cfg.Engine.StatusDir()},
		{Source: s.resolverFile(sb.ID), Destination: "/etc/resolv.conf", ReadOnly: true},
		{Source: hosts, Destination: "/etc/hosts", ReadOnly: true},
	}
	root, err := os.OpenRoot(s.linuxRoot(c.ID))
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // opened for look-ups
	for _, m := range out {
		if err := s.makePlace(root, strings.TrimPrefix(m.Destination, "/"), m.Source, sb); err != nil {
			return nil, fmt.Errorf("create mount point %s: %w", m.Destination, err)
		}
	}
	if s.cfg.Engine.Drive() != "/" {
		out = append(out, oci.Mount{Source: s.dir(c.ID, rootDir), Destination: s.cfg.Engine.Drive()})
	}
	return out, nil
}

// mount resolves one mount and makes its place. Which requests are refused, and with which
// words, is containerd's parseMount (internal/cri/opts/spec_windows_opts.go).
//
// The source is pinned at a place of the container at once: between now and the
// start another container of the pod could put a link in the place of a directory
// that it may write to (compare CVE-2021-25741).
func (s *Server) mount(at *places, m *runtime.Mount, pinned string, sb store.Sandbox) (oci.Mount, error) {
	src, dst := m.GetHostPath(), m.GetContainerPath()
	switch {
	case m.GetImage().GetImage() != "":
		return oci.Mount{}, invalid{fmt.Errorf("mount %q: image volumes are not supported on Windows", dst)}
	case winpath.KindOf(src) == winpath.Device:
		return oci.Mount{}, invalid{fmt.Errorf("mount %q: named pipes of the host are not emulated", src)}
	case len(dst) == 2 && strings.EqualFold(dst, winpath.SystemDrive):
		return oci.Mount{}, invalid{errors.New("destination path can not be C drive")}
	case m.GetPropagation() == runtime.MountPropagation_PROPAGATION_BIDIRECTIONAL ||
		m.GetPropagation() == runtime.MountPropagation_PROPAGATION_HOST_TO_CONTAINER:
		return oci.Mount{}, invalid{fmt.Errorf("mount %q: mount propagation is not supported on Windows", dst)}
	}
	found, err := at.find(dst)
	if err != nil {
		return oci.Mount{}, err
	}
	if err := s.pin(src, pinned, !m.GetReadonly()); err != nil {
		return oci.Mount{}, err
	}
	if err := s.makeVolumePlace(found, pinned, sb); err != nil {
		return oci.Mount{}, fmt.Errorf("create mount point %q: %w", dst, mount.WithoutPath(err))
	}
	if err := at.add(found, dst, pinned); err != nil {
		return oci.Mount{}, err
	}
	return oci.Mount{Source: pinned, Destination: slash(found.path()), ReadOnly: m.GetReadonly()}, nil
}

// pin mounts a file or directory of the emulated host at a place.
func (s *Server) pin(p, place string, writable bool) error {
	f, info, err := mount.OpenSource(s.cfg.Drive, p)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only a handle
	if writable && !isClosed(p) {
		if err := letWrite(f, info); err != nil {
			return fmt.Errorf("mount %q: %w", p, mount.WithoutPath(err))
		}
	}
	if err := bind(f, info.IsDir(), place); err != nil {
		return fmt.Errorf("mount %q: %w", p, mount.WithoutPath(err))
	}
	return nil
}

// closed returns the directories of the host that ordinary users of Windows cannot
// write to.
func closed() []string {
	return []string{`\Windows`, `\Program Files`, `\Program Files (x86)`, `\ProgramData\mullion`}
}

func isClosed(windows string) bool {
	p := strings.TrimPrefix(winpath.Clean(windows), winpath.SystemDrive)
	for _, c := range closed() {
		if len(p) >= len(c) && strings.EqualFold(p[:len(c)], c) && (len(p) == len(c) || p[len(c)] == '\\') {
			return true
		}
	}
	return p == `\`
}

// letWrite lets a container write into a writable mount. On Windows the default
// permissions of a new directory on drive C let every authenticated user write,
// also to files that others make in it; here it belongs to root, which made it, and
// each pod has its own users.
func letWrite(f *os.File, info fs.FileInfo) error {
	mode := info.Mode().Perm() | 0o666
	if info.IsDir() {
		mode |= 0o111
		if err := mount.InheritToAll(f); err != nil {
			return err
		}
	}
	if mode == info.Mode().Perm() {
		return nil
	}
	return os.Chmod(mount.Handle(f), mode)
}

// makePlace makes an empty directory or file to mount the source on. Everything goes
// through root, because the image's author may have put links anywhere.
func (s *Server) makePlace(root *os.Root, rel, source string, sb store.Sandbox) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if place, err := root.Stat(rel); err == nil {
		if place.IsDir() != info.IsDir() {
			return mount.ErrOtherKind
		}
		return nil
	}
	dir := rel
	if !info.IsDir() {
		dir = path.Dir(rel)
	}
	if err := s.makeDirs(root, dir, sb); err != nil || info.IsDir() {
		return err
	}
	f, err := root.OpenFile(rel, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	uid, gid := s.owner(sb)
	return errors.Join(chown(f, uid, gid), f.Close())
}

// makeDirs is MkdirAll for a container's directories, which belong to its user.
func (s *Server) makeDirs(root *os.Root, dir string, sb store.Sandbox) error {
	uid, gid := s.owner(sb)
	at := ""
	for e := range strings.SplitSeq(dir, "/") {
		at = path.Join(at, e)
		err := root.Mkdir(at, 0o755)
		if errors.Is(err, fs.ErrExist) || at == "." {
			continue
		}
		if err != nil {
			return err
		}
		if uid >= 0 {
			if err := root.Lchown(at, uid, gid); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeStatusDir makes the directory that the container's init, with the IDs of p,
// writes to.
func (s *Server) makeStatusDir(dir string, p oci.Process) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if uid, _ := s.cfg.Engine.Owner(); uid < 0 {
		return nil
	}
	return os.Chown(dir, int(p.UID), int(p.GID))
}

func (s *Server) makeOwned(dir string, sb store.Sandbox) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	uid, gid := s.owner(sb)
	if uid < 0 {
		return nil
	}
	return os.Chown(dir, uid, gid)
}

func chown(f *os.File, uid, gid int) error {
	if uid < 0 {
		return nil
	}
	return f.Chown(uid, gid)
}
