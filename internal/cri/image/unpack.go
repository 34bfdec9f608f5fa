// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// errMixed means that a layer that began as a Windows one has entries beside
// Files/, Hives/ and UtilityVM/; it is then unpacked again as a plain one.
var errMixed = errors.New("not a Windows layer")

// unpacker writes one layer's entries below a directory. Everything goes
// through os.Root: even if a check here were wrong, no file outside the directory
// could be reached.
type unpacker struct {
	root     *os.Root
	path     *openPath
	spelling *spelling
	shape    shape
	meter    *meter
	uid, gid int // owner of everything; -1 leaves the process's own
	notes    map[string]int
	// links maps where symbolic links go to their targets, relative to the
	// layer's root. They are made last: no entry can be written through one.
	links    map[string]string
	made     map[string]bool // directories of this layer
	dirTimes []dirTime
}

func newUnpacker(root *os.Root, below []string, m *meter, uid, gid int) *unpacker {
	return &unpacker{
		root:     root,
		path:     newOpenPath(root),
		spelling: newSpelling(below),
		meter:    m,
		uid:      uid,
		gid:      gid,
		notes:    map[string]int{},
		links:    map[string]string{},
		made:     map[string]bool{},
	}
}

type dirTime struct {
	name string
	at   time.Time
}

// Permissions of unpacked entries. Windows layers carry no permissions (the tar's
// mode is synthetic) and Wine derives access rights from them, so they are the same
// for all: the owner writes, all users read and execute. Set-user-ID bits never
// survive.
const (
	dirPerm      = 0o755
	openDirPerm  = 0o777 | fs.ModeSticky // a directory where all users may add files
	filePerm     = 0o755
	readOnlyPerm = 0o555
)

// paxAttributes is the PAX record in which Windows layers keep a file's
// attributes, decimal: github.com/Microsoft/go-winio/backuptar/tar.go,
// hdrFileAttributes.
const paxAttributes = "MSWINDOWS.fileattr"

func (u *unpacker) run(ctx context.Context, r io.Reader) error {
	defer u.path.close()
	defer u.spelling.close()
	tr := tar.NewReader(r)
	first := true
	for {
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		if err != nil {
			return fmt.Errorf("%w: read tar: %w", ErrInvalid, err)
		}
		if err := u.meter.entry(); err != nil {
			return err
		}
		if first && u.shape == shapeWindows {
			u.shape = detectShape(hdr.Name)
		}
		first = false
		if err := u.entry(hdr, tr); err != nil {
			return err
		}
	}
	if err := u.makeLinks(); err != nil {
		return err
	}
	return u.setDirTimes()
}

func (u *unpacker) entry(hdr *tar.Header, content io.Reader) error {
	// A PAX global header is about the archive, not a file.
	if hdr.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	m, err := mapEntry(u.shape, hdr.Name)
	if err != nil {
		return err
	}
	if err := u.meter.declare(hdr.Size); err != nil {
		return fmt.Errorf("layer entry %q: %w", hdr.Name, err)
	}
	if m.verdict != keep {
		if m.reason != "" && hdr.Typeflag != tar.TypeDir {
			u.notes[m.reason]++
		}
		return nil
	}
	err = u.place(hdr, m, content)
	var r *refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &r):
		return err // it names the entry
	case errors.Is(err, ErrInvalid), isSpace(err):
		return fmt.Errorf("layer entry %q: %w", hdr.Name, err)
	}
	// If the kernel refuses the entry, the archive is the cause: a file where a
	// directory should be, a loop, a name that is too long.
	return fmt.Errorf("%w: layer entry %q: %w", ErrInvalid, hdr.Name, err)
}

func (u *unpacker) place(hdr *tar.Header, m mapped, content io.Reader) error {
	if len(m.parts) == 0 {
		if m.opaque {
			return opaque(u.root)
		}
		if hdr.Typeflag != tar.TypeDir {
			return refuse(hdr.Name, "the root is not a directory")
		}
		return nil
	}
	at, err := u.enter(m.parts[:len(m.parts)-1])
	if err != nil {
		return err
	}
	base := u.spelling.name(at.name, m.parts[len(m.parts)-1])
	name := at.join(base)
	if err := u.meter.name(len(name)); err != nil {
		return err
	}
	switch {
	case m.opaque:
		if err := u.dir(at, base, time.Time{}); err != nil {
			return err
		}
		dir, err := at.root.OpenRoot(base)
		if err != nil {
			return err
		}
		return errors.Join(opaque(dir), dir.Close())
	case m.whiteout:
		return u.whiteout(at, base)
	}
	if _, ok := u.links[name]; ok {
		return refuse(hdr.Name, "the path is a symbolic link already")
	}
	switch hdr.Typeflag {
	case tar.TypeDir:
		return u.dir(at, base, hdr.ModTime)
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(at, base, hdr, content)
	case tar.TypeLink:
		return u.hardLink(at, base, hdr)
	case tar.TypeSymlink:
		// A file under the link's name may have come before; a directory may not.
		if err := u.clear(at, base); err != nil {
			return err
		}
		target, err := u.linkTarget(hdr)
		if err != nil {
			return err
		}
		u.links[name] = target
		return nil
	}
	return refuse(hdr.Name, "type %q: devices, pipes and the like are not part of Windows layers", hdr.Typeflag)
}

// enter opens the directory that the components lead to, and makes the missing
// ones. A component that the archive made a symbolic link is refused: Windows' own
// tools never write through links.
func (u *unpacker) enter(parts []string) (openDir, error) {
	for _, p := range parts[u.path.shared(parts):] {
		at := u.path.last()
		base := u.spelling.name(at.name, p)
		if name := at.join(base); !u.made[name] {
			// An archive of few entries must not make many directories.
			if err := errors.Join(u.meter.entry(), u.meter.name(len(name))); err != nil {
				return openDir{}, err
			}
		}
		if err := u.dir(at, base, time.Time{}); err != nil {
			return openDir{}, err
		}
		if err := u.path.descend(base); err != nil {
			return openDir{}, err
		}
	}
	return u.path.last(), nil
}

// dir makes a directory in an open one, unless the archive made it before.
func (u *unpacker) dir(at openDir, base string, modified time.Time) error {
	name := at.join(base)
	if _, ok := u.links[name]; ok {
		return refuse(name, "a path through a symbolic link")
	}
	if !modified.IsZero() {
		u.dirTimes = append(u.dirTimes, dirTime{name, modified})
	}
	if u.made[name] {
		return nil
	}
	err := at.root.Mkdir(base, dirPerm)
	if errors.Is(err, fs.ErrExist) {
		st, serr := at.root.Lstat(base)
		if serr != nil {
			return serr
		}
		if !st.IsDir() {
			// The archive replaces a file, or its own whiteout, by a directory.
			if err := at.root.Remove(base); err != nil {
				return err
			}
			err = at.root.Mkdir(base, dirPerm)
		} else {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	u.made[name] = true
	if err := u.own(at.root, base); err != nil || isClosed(name) {
		return err
	}
	return at.root.Chmod(base, openDirPerm)
}

// isClosed reports whether ordinary users cannot write to a directory: the
// directories of Windows, and the profiles. Every other directory inherits from
// drive C's root the right of authenticated users to make files and directories in
// it, which they own.
func isClosed(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	switch strings.ToLower(top) {
	case "windows", "program files", "program files (x86)", "users":
		return true
	}
	return false
}

// clear removes an earlier entry of the archive itself at a name. A directory with
// content stays and the caller's own call fails.
func (u *unpacker) clear(at openDir, base string) error {
	err := at.root.Remove(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		delete(u.made, at.join(base))
	}
	return err
}

func (u *unpacker) file(at openDir, base string, hdr *tar.Header, content io.Reader) error {
	if err := u.clear(at, base); err != nil {
		return err
	}
	perm := fs.FileMode(filePerm)
	if readOnly(hdr) {
		perm = readOnlyPerm
	}
	f, err := at.root.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, content)
	if err == nil && n != hdr.Size {
		err = fmt.Errorf("%w: %d bytes, header says %d", ErrInvalid, n, hdr.Size)
	}
	if err == nil {
		err = u.meter.add(n)
	}
	// The umask may have taken bits away.
	err = errors.Join(err, f.Chmod(perm), f.Close())
	if err != nil {
		return err
	}
	if err := u.own(at.root, base); err != nil {
		return err
	}
	return at.root.Chtimes(base, hdr.ModTime, hdr.ModTime)
}

// readOnly reads FILE_ATTRIBUTE_READONLY, bit 0, from the entry's attributes.
func readOnly(hdr *tar.Header) bool {
	var attr uint32
	if _, err := fmt.Sscan(hdr.PAXRecords[paxAttributes], &attr); err != nil {
		return false
	}
	return attr&1 != 0
}

// hardLink links to a file of this layer, or copies one from a lower layer, as
// overlayfs itself would on a link call.
func (u *unpacker) hardLink(at openDir, base string, hdr *tar.Header) error {
	m, err := mapEntry(u.shape, hdr.Linkname)
	if err != nil {
		return err
	}
	if m.verdict != keep || m.whiteout || m.opaque || len(m.parts) == 0 {
		return refuse(hdr.Name, "hard link to %q", hdr.Linkname)
	}
	target, ok := u.spelling.lookup(m.parts)
	if !ok {
		return refuse(hdr.Name, "hard link to %q, which does not exist", hdr.Linkname)
	}
	name := at.join(base)
	if target == name {
		return nil
	}
	if err := u.clear(at, base); err != nil {
		return err
	}
	st, err := u.root.Lstat(target)
	switch {
	case err == nil && !st.Mode().IsRegular():
		return refuse(hdr.Name, "hard link to %q, which is not a regular file", hdr.Linkname)
	case err == nil:
		return u.root.Link(target, name)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	below, err := u.spelling.openBelow(target)
	if err != nil {
		return refuse(hdr.Name, "hard link to %q: %v", hdr.Linkname, err)
	}
	defer below.Close() // opened for reading
	info, err := below.Stat()
	if err != nil {
		return err
	}
	if err := u.meter.declare(info.Size()); err != nil {
		return err
	}
	copied := *hdr
	copied.Size, copied.ModTime = info.Size(), info.ModTime()
	return u.file(at, base, &copied, below)
}

// linkTarget turns a link's target into a relative Unix path that cannot leave
// the layer: absolute targets, Windows' or Unix', start at the layer's root,
// and ".." stops there, as it does at C:\.
func (u *unpacker) linkTarget(hdr *tar.Header) (string, error) {
	m, err := mapEntry(u.shape, hdr.Name)
	if err != nil {
		return "", err
	}
	target := slashed(hdr.Linkname)
	for _, prefix := range []string{"//?/", "/??/", "//./"} {
		if rest, ok := strings.CutPrefix(target, prefix); ok {
			// "UNC/server/share" would become a local path.
			target = "/" + strings.TrimPrefix(rest, "/")
			if len(rest) >= 2 && rest[1] == ':' {
				target = rest
			} else if strings.HasPrefix(fold(rest), "UNC/") {
				target = "//"
			}
			break
		}
	}
	at := m.parts[:len(m.parts)-1]
	switch {
	case strings.HasPrefix(target, "//"):
		return "", refuse(hdr.Name, "symbolic link to the share %q", hdr.Linkname)
	case len(target) >= 2 && target[1] == ':':
		if fold(target[:1]) != "C" {
			return "", refuse(hdr.Name, "symbolic link to %q: only C: exists", hdr.Linkname)
		}
		target, at = target[2:], nil
	case strings.HasPrefix(target, "/"):
		at = nil
	}
	dest := slices.Clone(at)
	for p := range strings.SplitSeq(target, "/") {
		switch p {
		case "", ".":
		case "..":
			dest = dest[:max(len(dest)-1, 0)]
		default:
			dest = append(dest, p)
		}
	}
	if _, err := checkName(hdr.Name, mapped{parts: dest}); err != nil {
		return "", err
	}
	return strings.Join(dest, "/"), nil
}

func (u *unpacker) makeLinks() error {
	u.path.close() // the root alone is left
	for _, at := range slices.Sorted(maps.Keys(u.links)) {
		target := u.links[at]
		// Now that all entries are there, the target's spelling is known.
		dest, _ := u.spelling.lookup(strings.Split(target, "/"))
		rel := path.Clean(strings.Repeat("../", strings.Count(at, "/")) + dest)
		if err := u.clear(u.path.last(), at); err != nil {
			return fmt.Errorf("%w: symbolic link %q: %w", ErrInvalid, at, err)
		}
		if err := u.root.Symlink(rel, at); err != nil {
			return fmt.Errorf("symbolic link %q: %w", at, err)
		}
		if err := u.own(u.root, at); err != nil {
			return err
		}
	}
	return nil
}

// whiteout hides a name of the layers below. It also removes this archive's own
// entry there, because the order of entries has no meaning to a reader.
func (u *unpacker) whiteout(in openDir, base string) error {
	if err := in.root.RemoveAll(base); err != nil {
		return err
	}
	name := in.join(base)
	maps.DeleteFunc(u.links, func(at, _ string) bool { return within(at, name) })
	maps.DeleteFunc(u.made, func(at string, _ bool) bool { return within(at, name) })
	return makeWhiteout(in.root, base)
}

// within reports whether name is dir or lies below it.
func within(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, dir+"/")
}

func (u *unpacker) own(in *os.Root, name string) error {
	if u.uid < 0 {
		return nil
	}
	return in.Lchown(name, u.uid, u.gid)
}

// setDirTimes comes last and deepest first, because making an entry changes the
// time of its directory.
func (u *unpacker) setDirTimes() error {
	for _, d := range slices.Backward(u.dirTimes) {
		err := u.root.Chtimes(d.name, d.at, d.at)
		// A later entry may have replaced the directory.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
